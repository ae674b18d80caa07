package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"zsched/scheduler/report"
)

func TestReloadChangesWhoGetsNotices(t *testing.T) {
	form := filepath.Join(t.TempDir(), "delivery")
	r := NewReporter(&report.Reporter{FormFile: form})
	if r.AnswersNullSender() {
		t.Error("somebody gets notices about null senders, without a form")
	}
	r.Configure(&report.Reporter{FormFile: form, StoreErrors: true})
	if !r.AnswersNullSender() {
		t.Error("store-error-on-error has no effect")
	}
	if err := os.WriteFile(form, []byte("ADR Bcc: postmaster@mx.example\n\ntext\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Configure(&report.Reporter{FormFile: form})
	if !r.AnswersNullSender() {
		t.Error("an address of a new form has no effect")
	}
}
