package command

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// grace is how long a command may take to end by itself after a signal.
const grace = 10 * time.Second

// endsItself marks commands that take their own time after a signal.
const endsItself = "lateen.ends-itself"

// EndsItself lets a command, and all below it, take as long as they want to end after the first
// signal: they stop processes that they have started. A second signal ends them at once.
func EndsItself(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[endsItself] = "true"
	return cmd
}

// watchedContext notes whether anybody waits for its end.
type watchedContext struct {
	context.Context
	watched *atomic.Bool
}

// Done implements context.Context.
func (c watchedContext) Done() <-chan struct{} {
	c.watched.Store(true)
	return c.Context.Done()
}

// runUntilSignal runs a command. SIGINT and SIGTERM end its context. They end the process, as they
// do by default, if nothing of the command has asked for the end of the context: then it computes,
// and would hear of nothing. They also do so when the command goes on for longer than a time, and
// at the second signal.
func runUntilSignal(root *cobra.Command, args []string, within time.Duration) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watched := watchedContext{ctx, &atomic.Bool{}}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		received := <-signals
		if watched.watched.Load() {
			cancel()
			var late <-chan time.Time
			if !takesItsTime(root, args) {
				late = time.After(within)
			}
			select {
			case received = <-signals:
			case <-late:
			}
		}
		signal.Reset(received)
		if s, ok := received.(syscall.Signal); ok {
			_ = syscall.Kill(os.Getpid(), s) // which nobody can refuse
		}
	}()
	return Run(watched, root, args)
}

// takesItsTime reports whether the command that the arguments name is marked by EndsItself.
func takesItsTime(root *cobra.Command, args []string) bool {
	cmd, _, err := root.Find(args)
	for ; err == nil && cmd != nil; cmd = cmd.Parent() {
		if cmd.Annotations[endsItself] != "" {
			return true
		}
	}
	return false
}
