package ta

import "fmt"

// The exit codes by which delivery programs speak (sysexits.h), and two more
// of ZMailer's own.
const (
	ExitOK          = 0
	ExitUsage       = 64
	ExitDataErr     = 65
	ExitNoInput     = 66
	ExitNoUser      = 67
	ExitNoHost      = 68
	ExitUnavailable = 69
	ExitSoftware    = 70
	ExitOSErr       = 71
	ExitOSFile      = 72
	ExitCantCreate  = 73
	ExitIOErr       = 74
	ExitTempFail    = 75
	ExitProtocol    = 76
	ExitNoPerm      = 77
	ExitConfig      = 78
	ExitDeferBack   = 90
	ExitDeferAll    = 100
)

// ExitResult is the result that an exit code means to ZMailer's agents. All
// that is not known to be temporary has failed: what the old program left
// without an action was never told to the sender. Agents with rules of their
// own (a command's exit codes, say) do not use it.
func ExitResult(code int, fields Fields, text string) Result {
	r := Result{Status: Error, Fields: fields, Text: text}
	switch code {
	case ExitOK:
		r.Status = OK
	case ExitTempFail, ExitIOErr, ExitOSErr, ExitCantCreate, ExitSoftware:
		r.Status = Deferred
	case ExitDeferBack:
		r.Status = DeferBack
	case ExitDeferAll:
		r.Status = DeferAll
	case ExitNoUser, ExitNoHost, ExitUnavailable:
	case ExitNoPerm, ExitProtocol, ExitUsage:
		r.Text += " (this should not happen; somebody should look)"
	default:
		r.Text = fmt.Sprintf("unknown exit code %d: %s", code, text)
	}
	return r
}
