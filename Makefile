# Everything goes to bin/, the agents to bin/ta/, so that MAILBIN=bin works.

GO        = go
FUZZTIME  = 10s
MAILSHARE = /opt/mail
MAILBIN   = $(MAILSHARE)/bin
MANDIR    = /usr/local/share/man

MAINS  = $(patsubst %/main.go,%,$(wildcard ./cmd/*/main.go))
AGENTS = $(patsubst %/main.go,%,$(wildcard ./cmd/ta/*/main.go))

all:
	@mkdir -p bin/ta
	$(if $(MAINS),$(GO) build -o bin/ $(MAINS))
	$(if $(AGENTS),$(GO) build -o bin/ta/ $(AGENTS))

test: all
	$(GO) test ./...

race:
	$(GO) test -race ./...

fuzz:
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; \
			$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done; \
	done

bench: all
	$(GO) test -run '^$$' -bench . -timeout 2h -p 1 ./...

# The long form of what the tests do in short: an old agent, fifty kills.
crash: all
	$(GO) test -count=1 -v -run 'OldAgent|Killed' ./cmd/scheduler -args -messages 40000 -kills 50

check:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || \
		{ echo "gofmt would change:" $$unformatted; exit 1; }
	$(GO) vet ./...
	$(GO) test -run Import .

demo: all
	@packaging/demo

# Postfix's smtp-sink, qmgr and smtp, unpacked but not installed: what the tests
# of the smtp agent talk to, and what its benchmark runs beside.
peers:
	rm -rf .peers && mkdir -p .peers/deb
	cd .peers/deb && apt-get download postfix && dpkg -x postfix_*.deb ..
	rm -r .peers/deb
	chmod -R a+rX .peers

# These are the places that zmailer.conf(5) has by default.
install: all
	install -d $(DESTDIR)$(MAILBIN)/ta
	install $$(find bin -maxdepth 1 -type f) $(DESTDIR)$(MAILBIN)
	install bin/ta/* $(DESTDIR)$(MAILBIN)/ta
	install -m 644 scheduler.cf.example $(DESTDIR)$(MAILSHARE)
	@for s in 1 5 7 8; do \
		for f in man/*.$$s; do \
			test -f $$f || continue; \
			install -D -m 644 $$f $(DESTDIR)$(MANDIR)/man$$s/$$(basename $$f); \
		done; \
	done

.PHONY: all test race fuzz bench crash check demo peers install
