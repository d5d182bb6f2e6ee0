#!/bin/sh
# Runs the JMeter whose bin this file lies in, as Apache's own bin/jmeter does. The process becomes Java's, so that who ends it
# ends JMeter. $HEAP and $JVM_ARGS are options of Java.
set -eu
java=java
if [ -n "${JAVA_HOME:-}" ]; then
	java=$JAVA_HOME/bin/java
fi
if ! command -v "$java" >/dev/null; then
	echo "JMeter needs Java 8 or newer: neither \$JAVA_HOME nor \$PATH has it" >&2
	exit 1
fi
bin=$(dirname "$(readlink -f "$0")")
# shellcheck disable=SC2086 # several options
exec "$java" ${HEAP:--Xms256m -Xmx1g} ${JVM_ARGS:-} -Djava.awt.headless=true -jar "$bin/ApacheJMeter.jar" "$@"
