package postoffice

import (
	"syscall"
	"testing"
)

func TestACallIsRepeatedWhileASignalInterruptsIt(t *testing.T) {
	calls := 0
	n, err := Retry1(func() (int, error) {
		if calls++; calls < 3 {
			return -1, syscall.EINTR
		}
		return 7, syscall.EIO
	})
	if n != 7 || err != syscall.EIO || calls != 3 {
		t.Errorf("%d, %v after %d calls", n, err, calls)
	}
	calls = 0
	err = Retry(func() error {
		if calls++; calls < 3 {
			return syscall.EINTR
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestCallThatIsAlwaysInterruptedEnds(t *testing.T) {
	if err := Retry(func() error { return syscall.EINTR }); err != syscall.EINTR {
		t.Errorf("error %v", err)
	}
	if n, err := Retry1(func() (int, error) { return -1, syscall.EINTR }); n != -1 || err != syscall.EINTR {
		t.Errorf("%d, %v", n, err)
	}
}
