package podnet

import (
	"context"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netns"
)

// inside runs f on a thread that is in a network namespace. What f opens stays in that namespace.
func inside(ns netns.NsHandle, f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("the thread's own network namespace: %w", err)
	}
	defer func() { _ = home.Close() }()
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering a network namespace: %w", err)
	}
	result := f()
	if err := netns.Set(home); err != nil {
		// the thread stays locked, and ends with its goroutine
		return fmt.Errorf("leaving a network namespace: %w", err)
	}
	runtime.UnlockOSThread()
	return result
}

// newNamespace makes a network namespace.
func newNamespace() (ns netns.NsHandle, err error) {
	err = func() error {
		home, err := netns.Get()
		if err != nil {
			return err
		}
		defer func() { _ = home.Close() }()
		return inside(home, func() (err error) {
			ns, err = netns.New() // which enters it; inside leaves it
			return err
		})
	}()
	if err != nil {
		return netns.None(), fmt.Errorf("making a network namespace: %w", err)
	}
	return ns, nil
}

func dial(ctx context.Context, ns netns.NsHandle, network, address string) (conn net.Conn, err error) {
	err = inside(ns, func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
