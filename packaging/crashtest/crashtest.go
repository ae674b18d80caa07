// Package crashtest contains no code, only tests that kill the built programs, and
// make their calls on files fail, on the real disk.
//
// A scenario starts the router, the SMTP server and the scheduler in a postoffice of
// its own, submits mail in every way, gives orders, reloads, stops and starts again:
// deliveries, deferrals, failures, expiry, notices, holds, reroutes, lists. It runs
// once to count the calls on files of every program. Then it runs again for each of
// them, and the program is killed at that call (TestKilledAtEachCall), or the call fails
// with each error that it can have (TestErrorAtEachCall, TestErrorAtStart), alone or with
// all calls after it (TestLastingErrors). At the end a ledger says whether every recipient is
// delivered or its sender has a notice, and what came twice and why.
//
// go test runs a sample; make crashtest runs everything. The simulated counterpart,
// with power cuts, is TestPowerCuts in cmd/router. The tests need ptrace(2), but not
// root.
package crashtest
