# Everything is built into bin/, the agents into bin/ta/, so that MAILBIN=bin is
# a working tree.

GO        = go
TIME      = 10s
# What was compiled in another directory is not compiled again.
export GOFLAGS += -trimpath

PREFIX     = /opt
MAILSHARE  = $(PREFIX)/mail
MAILBIN    = $(MAILSHARE)/bin
# The usual places of a system for the usual PREFIX, else places below it.
system     = $(if $(filter /opt /usr /usr/local,$(PREFIX)),$(1),$(PREFIX)$(2))
MANDIR     = $(call system,/usr/local/share/man,/share/man)
POSTOFFICE = $(call system,/var/spool/postoffice,/var/spool/postoffice)
LOGDIR     = $(call system,/var/log/mail,/var/log/mail)
UNITDIR    = $(call system,/etc/systemd/system,/etc/systemd/system)
LOGROTATEDIR = $(call system,/etc/logrotate.d,/etc/logrotate.d)
PLACES     = DESTDIR='$(DESTDIR)' MAILSHARE='$(MAILSHARE)' MAILBIN='$(MAILBIN)' MANDIR='$(MANDIR)' \
	POSTOFFICE='$(POSTOFFICE)' LOGDIR='$(LOGDIR)' UNITDIR='$(UNITDIR)' LOGROTATEDIR='$(LOGROTATEDIR)'
LDFLAGS    = -X zsched/internal/zenv.defaultPath=$(MAILSHARE)/zmailer.conf

# cmd/simulate is for those who work on the scheduler, and is not built.
MAINS  = $(filter-out ./cmd/simulate,$(patsubst %/main.go,%,$(wildcard ./cmd/*/main.go)))
AGENTS = $(patsubst %/main.go,%,$(wildcard ./cmd/ta/*/main.go))

all:
	@mkdir -p bin/ta
	$(if $(MAINS),$(GO) build -ldflags '$(LDFLAGS)' -o bin/ $(MAINS))
	$(if $(AGENTS),$(GO) build -ldflags '$(LDFLAGS)' -o bin/ta/ $(AGENTS))

# Twice as many packages at a time as there are processors: many tests wait for time or
# for other processes. No result is taken from the cache, which does not know the programs
# that tests build and run. "make check" vets.
test: all
	ZSCHED_BIN=$(CURDIR)/bin $(GO) test -count=1 -vet=off -p $$((2 * $$(nproc))) ./...

# What to run before each commit, in half a minute: the core with its scenarios, the
# formats, the configuration and the documents.
quick:
	$(GO) build ./...
	$(GO) test -short . ./ctlfile ./mailq ./scheduler ./scheduler/config ./ta

race: all
	ZSCHED_BIN=$(CURDIR)/bin $(GO) test -count=1 -race -timeout 30m ./...

# Each fuzz target for TIME (make fuzz TIME=10m); FUZZ_AT_ONCE of them run at a time, by
# default one for each processor.
FUZZ_AT_ONCE =
fuzz:
	@packaging/fuzz $(TIME) $(FUZZ_AT_ONCE)

bench: all
	$(GO) test -run '^$$' -bench . -timeout 2h -p 1 ./...

# The long form of what the tests do in short: an old agent, fifty kills, ten thousand
# connections.
crash: all
	$(GO) test -count=1 -v -run 'OldAgent|Killed|SocketsUnderFlood' ./cmd/scheduler \
		-args -messages 40000 -kills 50 -connections 10000

# Every program killed at each of its calls on files, and each call failing with each
# of ERRORS that it can have, on the real disk: prints programs, calls, kills, losses,
# and doubles with the reason. AT_ONCE scenarios run at a time; in each, a program is
# killed up to KILLS times. Each of the four sweeps starts no run after CRASHTIME and
# then says how many are left out; 0 is no limit.
ERRORS  = ENOSPC,EIO,EDQUOT,EMFILE,ENFILE,EROFS,EACCES,EINTR
AT_ONCE = 8
KILLS   = 3
CRASHTIME = 30m
crashtest:
	$(GO) test -count=1 -v -timeout 3h ./packaging/crashtest -args -whole -errors $(ERRORS) -at-once $(AT_ONCE) -kills $(KILLS) -for $(CRASHTIME)

# The built programs on small disks that their own mail has filled, in all cases: four minutes,
# as root.
fulldisk: all
	ZSCHED_BIN=$(CURDIR)/bin $(GO) test -count=1 -v ./packaging/fulldisk -args -whole

# The core against models of agents and servers, in virtual time: prints our
# figures beside the published ones, and rewrites the page and the plots.
simulate:
	$(GO) run ./cmd/simulate --doc doc/simulation

# What the rules of turns, windows and limits achieve on the running program, with real
# agents and files: small mail behind much, one message alone, a dead host beside a live
# one, a hundred hosts beside 270 000 messages of a dead and a slow one, and the memory of
# 150 000 deferred messages.
show-science: all
	@log=$$(mktemp); trap 'rm -f '$$log EXIT; \
	$(GO) test -count=1 -v -run 'SmallMailBehindMuch|OneMessageLeavesSessionsFree|DeadHostBesideLiveOne|EachDestinationHasItsTurn' \
		-bench 'Resident/150' -benchtime 1x ./cmd/scheduler -args -turns 300000 > $$log 2>&1; status=$$?; \
	grep -E '_test.go:|^Benchmark.*MB|^--- FAIL|^(ok|FAIL|panic)' $$log; exit $$status

# Submission, routing, delivery and notices on a disk in memory that loses its power
# and fails, for SECONDS seconds: prints runs, power cuts, doubles and losses.
SECONDS = 60
simulate-faults:
	$(GO) test -count=1 -v -timeout 0 -run TestPowerCuts ./router -args -powercut.time=$(SECONDS)s

# ORDERS random orders in two sessions at once, while mail comes in, the configuration is read
# again, and the scheduler stops, is killed and starts again: prints how many answers have
# promised something, and each promise that was broken.
ORDERS = 2000000
simulate-orders:
	$(GO) test -count=1 -v -timeout 0 -run TestAnswersAreKept ./scheduler/admin -args -promise.steps=$(ORDERS)

# The built programs at load for SECONDS seconds, from the SMTP server and sendmail to
# Maildirs and other servers, while they are killed all the time: prints messages,
# faults, doubles with their causes, losses, and leaks.
soak: all
	ZSCHED_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 0 -run TestSoak ./packaging/soak -args -soak.time=$(SECONDS)s

# Formatting, vet, staticcheck (a tool of go.mod), and who may import whom.
check:
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$unformatted" || \
		{ echo "gofmt would change:" $$unformatted; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test -run Import .

# The share of each package's statements that any test of the tree runs.
cover:
	$(GO) test -coverpkg ./... -coverprofile cover.prof ./... > cover.log || { cat cover.log; exit 1; }
	@awk -f .ci/cover.awk cover.prof | sort
	@rm cover.prof cover.log

demo: all
	@packaging/demo
	@packaging/demo-mta

# Three schedulers that share a limit through a Redis server; one is killed.
demo-cluster: all
	@packaging/demo-cluster

# Attacks of local users on the built programs, as root and with two users that
# it makes and removes; it says so when it is skipped. Then 500 clients abuse the
# SMTP server at once: smuggling, endless lines, a million RCPT commands, messages
# that come a byte at a time, garbage in TLS.
attack: all
	$(GO) build -o bin/attack ./packaging/attack
	bin/attack; status=$$?; rm bin/attack; exit $$status
	$(GO) test -count=1 -v -run '^$$' -bench Abuse -benchtime 1x ./cmd/smtpserver

# A Postfix and a Redis server, unpacked but not installed: tests of the smtp agent
# talk to smtp-sink of the one, benchmarks of mail that comes in, goes through and
# goes out run beside it, and tests of several nodes use the other.
peers:
	rm -rf .peers && mkdir -p .peers/deb
	cd .peers/deb && apt-get download postfix redis-server redis-tools libjemalloc2 liblzf1 && \
		for package in *.deb; do dpkg -x $$package .. || exit; done
	rm -r .peers/deb
	chmod -R a+rX .peers

# Programs find zmailer.conf in the MAILSHARE that they are built with. With a
# PREFIX of your own everything is below it, and root is not needed. install-mta
# adds the router, the SMTP server and sendmail, for sites without ZMailer's.
install: all
	@$(PLACES) packaging/install install scheduler

install-mta: all
	@$(PLACES) packaging/install install mta

uninstall:
	@$(PLACES) packaging/install uninstall

.PHONY: all test quick race fuzz bench show-science crash crashtest fulldisk simulate simulate-faults simulate-orders soak attack check cover demo demo-cluster peers install install-mta uninstall
