/*
 * A transport agent in the style of ZMailer's, for a clause with
 * marking=agent: it reads its socket with fgets, writes it with printf and
 * fflush, locks the recipients it works on and marks them after it has
 * reported them. It delivers nothing and says that it did.
 *
 *	oldagent -c channel [-l file] [host]
 *
 * With -l it appends a line "path offset" to the file for each delivery, at
 * the moment of delivery: before the report, before the mark. A test that
 * kills the agent can count there what was delivered twice.
 *
 * ta(7) describes the protocol.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAXLINE 65536 /* of a job line */
#define MAXPID 999999 /* the widest that fits a lock */

static const char *channel;
static const char *only_host; /* where job lines name none ($host) */
static int log_fd = -1;
static volatile sig_atomic_t getout;

/* A control file, read whole, and the descriptor that marks it. */
struct control {
	const char *path;
	int fd;
	char *text;
	long size;
};

/* swap_tag changes the tag of the line at offset, if it has the tag from. */
static int swap_tag(const struct control *c, long offset, char from, char to)
{
	char field[16], new[8];
	int pid = to == '~' ? (int)getpid() : 0;

	if (pread(c->fd, field, sizeof field, offset + 1) != (ssize_t)sizeof field || field[0] != from)
		return 0;
	if (pid > MAXPID)
		pid = MAXPID;
	if (pid)
		snprintf(new, sizeof new, "%c%6d", to, pid);
	else
		snprintf(new, sizeof new, "%c      ", to);
	return pwrite(c->fd, new, 7, offset + 1) == 7;
}

/* token ends the word that starts at s: at a blank that is neither quoted nor
 * preceded by a backslash. The word keeps its quotes. */
static char *token(char *s)
{
	int quoted = 0;

	for (; *s != '\0'; s++) {
		if (*s == '\\' && s[1] != '\0')
			s++;
		else if (*s == '"')
			quoted = !quoted;
		else if (!quoted && (*s == ' ' || *s == '\t'))
			break;
	}
	return s;
}

/* word cuts the next word off *rest. */
static char *word(char **rest)
{
	char *start = *rest + strspn(*rest, " \t");
	char *end = token(start);

	*rest = end;
	if (*end != '\0') {
		*end = '\0';
		*rest = end + 1;
	}
	return start;
}

/* deliver works on the recipient at offset, whose line is the rest of what
 * follows the pid and delay fields. It returns 1 if it was ours. */
static int deliver(const struct control *c, long offset, char *quad, const char *host)
{
	const char *base = strrchr(c->path, '/');
	char *ch = word(&quad), *ho = word(&quad), *user = word(&quad);

	if (strcmp(ch, channel) != 0 || (host != NULL && strcasecmp(ho, host) != 0))
		return 0;
	if (!swap_tag(c, offset, ' ', '~'))
		return 0;
	if (log_fd >= 0) {
		char line[MAXLINE + 32];
		int n = snprintf(line, sizeof line, "%s %ld\n", c->path, offset);

		/* One write, so that the lines of other agents do not come between. */
		if (write(log_fd, line, n) != n) {
			printf("%s/%ld\t%s\001delayed\0014.3.0\001\001\tdeferred log: %s\n",
			    base ? base + 1 : c->path, offset, user, strerror(errno));
			fflush(stdout);
			swap_tag(c, offset, '~', ' ');
			return 1;
		}
	}
	/* ok, not ok3: if the sender wants a notice of success, the scheduler
	 * writes the d line. */
	printf("%s/%ld\t%s\001delivered\0012.0.0\001\001\tok delivered\n",
	    base ? base + 1 : c->path, offset, user);
	fflush(stdout);
	if (!swap_tag(c, offset, '~', '+'))
		fprintf(stderr, "# oldagent: %s: no mark at %ld\n", c->path, offset);
	return 1;
}

/* load reads a control file into c; 0 if that cannot be done. */
static int load(struct control *c)
{
	struct stat st;

	c->text = NULL;
	c->fd = open(c->path, O_RDWR | O_CLOEXEC);
	if (c->fd < 0)
		return 0;
	if (fstat(c->fd, &st) == 0 && S_ISREG(st.st_mode) && (c->text = malloc(st.st_size + 1)) != NULL &&
	    (c->size = read(c->fd, c->text, st.st_size)) == st.st_size) {
		c->text[c->size] = '\0';
		return 1;
	}
	free(c->text);
	close(c->fd);
	return 0;
}

/* has_message says whether the message file is there: the i line's name, in
 * queue/, below the same hash directories. */
static int has_message(const struct control *c, const char *name)
{
	static char file[MAXLINE + 512];
	const char *base = strrchr(c->path, '/');
	int dirs = base ? (int)(base + 1 - c->path) : 0;
	struct stat st;

	snprintf(file, sizeof file, "../queue/%.*s%.255s", dirs, c->path, name);
	return stat(file, &st) == 0 && S_ISREG(st.st_mode);
}

/* work processes one job line and returns how many of its recipients were ours. */
static int work(const char *path, const char *host)
{
	struct control c = {.path = path};
	const char *name = NULL;
	long flags = 0;
	int done = 0, checked = 0;

	if (!load(&c)) {
		fprintf(stderr, "# oldagent: %s: %s\n", path, strerror(errno));
		return 0;
	}
	for (char *line = c.text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		if ((*line == 'm' || *line == 'M') && end == line + 1) {
			/* A block: on to the empty line that ends it. */
			if ((end = strstr(line, "\n\n")) == NULL)
				break;
			end++;
			continue;
		}
		*end = '\0';
		if (line[0] == '@') {
			flags = strtol(line + 1, NULL, 0);
		} else if (line[0] == 'i' && line[1] != '\0') {
			name = line + 2;
		} else if (line[0] == 'r' && line[1] == ' ' && end - line > 12) {
			char *quad = line + 2 + (flags & 1 ? 6 : 0) + (flags & 2 ? 4 : 0);

			if (!checked && (name == NULL || !has_message(&c, name)))
				break;
			checked = 1;
			done += deliver(&c, line - c.text, quad, host);
		}
	}
	free(c.text);
	close(c.fd);
	return done;
}

/* leave ends the loop in main, even if the signal comes after the loop has
 * looked at getout and before fgets waits: fgets then finds its file closed. */
static void leave(int sig)
{
	(void)sig;
	if (!getout)
		close(STDIN_FILENO);
	getout = 1;
}

int main(int argc, char **argv)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
	static char line[MAXLINE + 2];
	struct sigaction sa;
	int opt;

	while ((opt = getopt(argc, argv, "c:l:")) != -1) {
		if (opt == 'c')
			channel = optarg;
		else if (opt != 'l' || (log_fd = open(optarg, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) < 0)
			return 64;
	}
	if (channel == NULL)
		return 64;
	only_host = argv[optind];

	/* Without SA_RESTART, so that fgets returns. */
	memset(&sa, 0, sizeof sa);
	sa.sa_handler = leave;
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &sa, NULL);
	signal(SIGPIPE, SIG_IGN);

	while (!getout) {
		char *host, *end;

		printf("#hungry\n");
		fflush(stdout);
		if (getout || fgets(line, sizeof line, stdin) == NULL)
			return 0;
		if ((end = strchr(line, '\n')) == NULL || end == line)
			return 0; /* cut off, or empty: leave */
		*end = '\0';
		if (strcmp(line, "#idle") == 0)
			continue;
		if ((host = strchr(line, '\t')) != NULL) {
			*host++ = '\0';
			host[strcspn(host, "\t")] = '\0';
		}
		if (!work(line, host ? host : only_host)) {
			printf("#resync %s\n", line);
			fflush(stdout);
		}
	}
	return 0;
}
