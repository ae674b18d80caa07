/*
 * The least a scheduler and its agent can do to a queue of messages with one
 * recipient each, in one process: read the directory; for each message open,
 * fstat, read and close the control file and stat the message; open, fstat
 * and read the control file again, write the tag twice, close it; unlink
 * both. It prints how many messages there were.
 *
 *      floor postoffice
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char buffer[1 << 16];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static ssize_t read_file(int fd)
{
	struct stat st;
	ssize_t n;

	if (fd < 0)
		fail("open");
	if (fstat(fd, &st) < 0)
		fail("fstat");
	if ((n = read(fd, buffer, sizeof buffer - 1)) < 0)
		fail("read");
	buffer[n] = 0;
	return n;
}

static void message(const char *name)
{
	char queue[300];
	struct stat st;
	char *tag;
	int fd = open(name, O_RDONLY);

	read_file(fd);
	close(fd);
	snprintf(queue, sizeof queue, "../queue/%s", name);
	if (stat(queue, &st) < 0)
		fail(queue);

	fd = open(name, O_RDWR);
	read_file(fd);
	if ((tag = strstr(buffer, "\nr ")) == NULL) {
		fprintf(stderr, "%s: no recipient\n", name);
		exit(1);
	}
	tag += 2;
	if (pwrite(fd, "~123456", 7, tag - buffer) != 7 || pwrite(fd, "+      ", 7, tag - buffer) != 7)
		fail("pwrite");
	close(fd);
	if (unlink(name) < 0 || unlink(queue) < 0)
		fail("unlink");
}

int main(int argc, char **argv)
{
	struct dirent *entry;
	long n = 0;
	DIR *dir;

	if (argc != 2 || chdir(argv[1]) < 0 || chdir("transport") < 0 || (dir = opendir(".")) == NULL)
		fail("postoffice");
	while ((entry = readdir(dir)) != NULL)
		if (isdigit((unsigned char)entry->d_name[0])) {
			message(entry->d_name);
			n++;
		}
	printf("%ld\n", n);
	return 0;
}
