package scheduler_test

import "testing"

// TestManualClauses: scheduler(8zm), CONFIGURATION FILE.
func TestManualClauses(t *testing.T) {
	checkRules(t, []manualRule{
		{"first command ends it", `If the clause specifies a command, the clause pattern
		matching sequence is terminated.`, `
config
	smtp/*.org command=first
	smtp/mx.* command=second
arrive 1 smtp/mx.org
arrive 2 smtp/mx.net
----
start A1 for smtp/mx.org: first
start A2 for smtp/mx.net: second
`},
		{"parameters are picked up", `When a clause pattern matches an address, the parameters
		set in the clause will be applied.`, `
config
	smtp/mx.* maxring=1
	smtp/*.org maxthr=2
	smtp command=smtp overfeed=0
arrive 1-3 smtp/mx.org
arrive 4-6 smtp/a.org
----
start A1 for smtp/mx.org: smtp
start A2 for smtp/a.org: smtp
start A3 for smtp/a.org: smtp
`},
		{"the later one holds", `The patterns for the clauses are matched, in sequence.`, `
config
	*/* maxthr=3
	smtp/mx.* maxthr=2
	smtp command=smtp maxthr=1
arrive 1-3 smtp/mx.org
----
start A1 for smtp/mx.org: smtp
`},
		{"*/* never ends it", `A clause matching all addresses sets up default values.
		Also with a command: scheduler.cf(5).`, `
config
	*/* command=default
	smtp command=smtp
arrive 1 smtp/a
arrive 2 local/a
----
start A1 for smtp/a: smtp
start A2 for local/a: default
`},
		{"no slash, any host", `If the selection pattern does not contain a '/', the host
		pattern is assumed to be the wildcard '*'.`, `
config
	error command=errormail
arrive 1 error/-
arrive 2 error/any.host
----
start A1 for error/-: errormail
start A2 for error/-: errormail
`},
		{"empty clause", `If the clause is empty, then the contents of the next
		non-empty clause will be used.`, `
config
	smtp/*.toronto.edu
	smtp/*.utoronto.ca
		maxring=1 command="smtp -srl ${LOGDIR}/smtp"
arrive 1-2 smtp/cs.toronto.edu
arrive 3 smtp/math.toronto.edu
arrive 4 smtp/x.utoronto.ca
----
start A1 for smtp/cs.toronto.edu: smtp -srl /var/log/mail/smtp
start A2 for smtp/x.utoronto.ca: smtp -srl /var/log/mail/smtp
`},
		{"intervals", `A concatenation of numbers suffixed with 's', 'm', 'h', or 'd'. For
		example: 1h5m20s.`, `
config
	smtp interval=1h5m20s retries=1 jitter=0 idlemax=1d command=smtp
arrive 1 smtp/a
hungry A1
report A1 1/100 deferred
hungry A1
hungry A1
at 2h
----
start A1 for smtp/a: smtp
A1 <- 1 a
A1 <- #idle
+1h5m20s A1 <- 1 a
`},
	})
}

// TestManualKeywords: the known variables and keywords.
func TestManualKeywords(t *testing.T) {
	checkRules(t, []manualRule{
		{"idlemax", `If a TA spends more than idlemax time in the idle pool, it is terminated.
		(3x interval)`, `
config
	smtp interval=10s command=smtp
	local interval=10s idlemax=1m command=mailbox
hide log finish
arrive 1 smtp/a
arrive 2 local/-
hungry A1 A2
done A1 1
done A2 2
hungry A1 A2
at 70s
----
start A1 for smtp/a: smtp
start A2 for local/-: mailbox
A1 <- 1 a
A2 <- 2 -
A1 <- #idle
A2 <- #idle
+30s close A1
+1m0s close A2
+1m0s kill A1
+1m10s kill -9 A1
`},
		{"expiry", `The expiry happens only, if there has been at least one delivery attempt in
		the lifetime of the scheduler process currently running. (3d)`, `
config
	*/* interval=1h retries=1 jitter=0 idlemax=30d command=smtp
hide mark finish
arrive 1 smtp/tried age=71h
hungry A1
report A1 1/100 deferred
hungry A1
hungry A1
at 59m59s
----
start A1 for smtp/tried: smtp
A1 <- 1 tried
A1 <- #idle

at 1h
----
+1h0m0s log 1 expire smtp/tried
`},
		{"expiry2", `Additional time beyond primary expiration by which time the message will be
		expired even without any delivery attempts. Unset it is 24 hours: scheduler.cf(5).`, `
config frozen
	smtp expiry=1h expiry2=30m command=smtp
	local expiry=1h command=mailbox
hide mark finish
arrive 1 smtp/a
arrive 2 local/-
at 26h
----
+1h30m0s log 1 expire smtp/a
+25h0m0s log 2 expire local/-
`},
		{"maxta", `If retrying an address would cause the number of simultaneously active
		transport agents to exceed the specified value, the retry is postponed.`, `
config
	*/* maxta=2
	smtp command=smtp
	local command=mailbox
hide log finish
arrive 1 smtp/a
arrive 2 smtp/b
arrive 3 local/-
hungry A1 A2
done A1 1
exit A1 exit status 0
----
start A1 for smtp/a: smtp
start A2 for smtp/a: smtp
A1 <- 1 a
A2 <- 2 b
close A1
start A3 for local/-: mailbox
`},
		{"maxta unset", `When no maxta parameter is used, or '0' is used, the number of available
		file descriptors is the limit.`, `
config maxagents=1
	smtp command=smtp
	local maxta=0 command=mailbox
arrive 1 smtp/a
arrive 2 local/-
----
start A1 for smtp/a: smtp
`},
		{"maxchannel", `The number of concurrent transport agent processes for which the channel
		part of the address quad are same.`, `
config
	smtp/one maxchannel=2 command=smtp
	smtp/two maxchannel=2 maxthr=2 command=smtp
	local maxchannel=2 command=mailbox
arrive 1 smtp/one
arrive 2-3 smtp/two
arrive 4 local/-
----
start A1 for smtp/one: smtp
start A2 for smtp/two: smtp
start A3 for local/-: mailbox
`},
		{"maxchannel that differs", `Case where non-alike values might make sense is when you want
		to guarantee resources for a subset of destinations.`, `
config
	smtp/important maxchannel=3 maxthr=9 command=smtp
	smtp maxchannel=2 maxthr=9 command=smtp
arrive 1-5 smtp/all.other
arrive 6-9 smtp/important
----
start A1 for smtp/all.other: smtp
start A2 for smtp/all.other: smtp
start A3 for smtp/important: smtp
`},
		{"maxchannel unset", `The default value is copied from the maxta.`, `
config
	smtp maxta=2 maxthr=9 sessions=5 command=smtp
arrive 1-5 smtp/a
hungry A1 A1 A1 A1 A1
----
start A1 for smtp/a: smtp
A1 <- 1 a
A1 <- 2 a
`},
		{"maxring", `Threads matching same selector clause are groupped into thread-rings, where same
		transport agent can be switched over from one recipient to another.`, `
config
	smtp maxring=1 command=smtp
hide log finish
arrive 1 smtp/a
arrive 2 smtp/b
hungry A1
done A1 1
----
start A1 for smtp/a: smtp
A1 <- 1 a
A1 <- 2 b
`},
		{"maxring unset", `When no limit is given, then maxta value is used for default.`, `
config
	smtp maxta=2 maxthr=9 command=smtp
arrive 1-5 smtp/a
----
start A1 for smtp/a: smtp
start A2 for smtp/a: smtp
`},
		{"maxthr", `The number of parallel transport agents within each thread; using higher value
		than default 1 will allow running more than one TA for the jobs at the thread.`, `
config
	smtp command=smtp
	local maxthr=2 command=mailbox
arrive 1-3 smtp/a
arrive 4-6 local/-
----
start A1 for smtp/a: smtp
start A2 for local/-: mailbox
start A3 for local/-: mailbox
`},
		{"overfeed", `How many job specifiers to feed to the TA when the process state is STUFFING.
		Beyond the one it works on: scheduler.cf(5).`, `
config
	smtp overfeed=2 command=smtp
hide log finish
arrive 1-9 smtp/a
hungry A1
done A1 1
----
start A1 for smtp/a: smtp
A1 <- 1 a
A1 <- 2 a
A1 <- 3 a
A1 <- 4 a
`},
		{"command", `"$channel" is replaced by the current matched channel, "$host" by the current
		matched host, and "${LOGDIR}" substitutes ZENV variable LOGDIR value.`, `
config
	smtp command="smtp -c $channel -l ${LOGDIR}/smtp $host"
arrive 1 smtp/mx.org
hungry A1
----
start A1 for smtp/mx.org: smtp -c smtp -l /var/log/mail/smtp mx.org
A1 <- 1
`},
		{"$host limits", `It is strongly recommended that the "$host" is not to be used, as it limits
		the usability of idled transporter.`, `
config
	smtp command="smtp $host"
hide log finish
arrive 1 smtp/a
hungry A1
done A1 1
hungry A1
arrive 2 smtp/b
----
start A1 for smtp/a: smtp a
A1 <- 1
A1 <- #idle
start A2 for smtp/b: smtp b
`},
		{"environment", `It is possible to place environment-string setting statements into the
		beginning of the line.`, `
config
	smtp command="MALLOC_DEBUG_=1 OTHER=${LOGDIR} cmdname cmdparams"
arrive 1 smtp/a
----
start A1 for smtp/a: MALLOC_DEBUG_=1 OTHER=/var/log/mail cmdname cmdparams
`},
		{"queueonly", `A clause with queueonly flag does not auto-start at the arrival of a message,
		instead it must be started by means of ETRN.`, `
config
	smtp queueonly interval=1h retries=24 command=smtp
arrive 1 smtp/a
at 25h
----
nothing

etrn a
----
start A1 for smtp/a: smtp
`},
	})
}

// TestManualExample: the complete configuration file of the manual.
func TestManualExample(t *testing.T) {
	const file = `
config
	*/*
		interval=1m expiry=3d retries="1 1 2 3 5 8 13 21 34"
		maxring=0 maxta=0 skew=5 user=root group=daemon
	local/*
		interval=10s expiry=3h maxchannel=2 command=mailbox
	error
		interval=5m maxchannel=10 command=errormail
	hold/*
		interval=5m maxchannel=1 command=hold
	smtp/*.toronto.edu
	smtp/*.utoronto.ca
		maxchannel=10 maxring=2
		command="smtp -srl $LOGDIR/smtp"
	smtp
		maxchannel=10 maxring=5
		command="smtp -esrl $LOGDIR/smtp"
	uucp/*
		maxchannel=5 command="sm -c $channel uucp"`
	checkRules(t, []manualRule{
		{"the third clause", `The third clause (error) has an implicit host wildcard of '*'.`, file + `
arrive 1 error/-
----
start A1 for error/-: errormail
`},
		{"two for the university", `At most 10 deliveries to the smtp channel may be concurrently active,
		and at most 2 for all possible hosts within TORONTO.EDU.`, file + `
arrive 1 smtp/a.toronto.edu
arrive 2 smtp/b.toronto.edu
arrive 3 smtp/c.toronto.edu
arrive 4 smtp/d.utoronto.ca
arrive 5 smtp/e.example
arrive 6 smtp/f.example
arrive 7 smtp/g.example
arrive 8 smtp/h.example
arrive 9 smtp/i.example
arrive 10 smtp/j.example
----
start A1 for smtp/a.toronto.edu: smtp -srl /var/log/mail/smtp
start A2 for smtp/a.toronto.edu: smtp -srl /var/log/mail/smtp
start A3 for smtp/d.utoronto.ca: smtp -srl /var/log/mail/smtp
start A4 for smtp/e.example: smtp -esrl /var/log/mail/smtp
start A5 for smtp/e.example: smtp -esrl /var/log/mail/smtp
start A6 for smtp/e.example: smtp -esrl /var/log/mail/smtp
start A7 for smtp/e.example: smtp -esrl /var/log/mail/smtp
start A8 for smtp/e.example: smtp -esrl /var/log/mail/smtp
`},
		{"uucp", `"sm -c $channel uucp"`, file + `
arrive 1 uucp/neat
----
start A1 for uucp/neat: sm -c uucp uucp
`},
	})
}
