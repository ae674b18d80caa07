// Package crashtest contains only tests. They kill the built programs, or make their
// system calls on files fail, on a real disk.
//
// A scenario starts the router, the SMTP server and the scheduler in a postoffice of
// its own, submits mail in every way, gives orders, reloads the configuration, and stops
// and restarts the programs. Its mail is delivered, deferred, refused, held, rerouted and
// sent to lists; it expires and causes notices. The scenario runs once to count the calls
// on files of every program. It then runs again for each of these calls: the program is
// killed at that call (TestKilledAtEachCall), or the call fails with each error that it
// can have (TestErrorAtEachCall, TestErrorAtStart), alone or together with all calls after
// it (TestLastingErrors). At the end a ledger shows whether every recipient is delivered
// or its sender has a notice, and what arrived twice and why.
//
// go test runs a sample; make crashtest runs everything. The simulated counterpart,
// with power cuts, is TestPowerCuts in router. The tests need ptrace(2), but not
// root.
package crashtest
