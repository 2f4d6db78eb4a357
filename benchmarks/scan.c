/* What a straightforward compiled scan of /proc costs: opens, reads and parses /proc/<pid>/stat of every process.
 *
 *     cc -O2 -o scan benchmarks/scan.c && ./scan PASSES
 *
 * Prints passes, processes in the last pass, and microseconds of CPU (user and system) a pass.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct process {
	long pid, ppid, pgrp, session, threads, rss;
	unsigned long long utime, stime, cutime, cstime, start;
	char state;
};

static int parse(char *text, struct process *process)
{
	char *closing = strrchr(text, ')');
	process->pid = atol(text);
	return closing &&
	       sscanf(closing + 2,
		      "%c %ld %ld %ld %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %ld %*d %llu %*u %ld",
		      &process->state, &process->ppid, &process->pgrp, &process->session, &process->utime,
		      &process->stime, &process->cutime, &process->cstime, &process->threads, &process->start,
		      &process->rss) == 11;
}

static long scan(struct process *table, long most)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	long count = 0;
	if (!proc)
		exit(1);
	while ((entry = readdir(proc))) {
		char path[64], text[2048];
		ssize_t length;
		int file;
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof path, "/proc/%.32s/stat", entry->d_name);
		file = open(path, O_RDONLY | O_CLOEXEC);
		if (file < 0)
			continue;
		length = read(file, text, sizeof text - 1);
		close(file);
		if (length <= 0)
			continue;
		text[length] = 0;
		if (count < most && parse(text, &table[count]))
			count++;
	}
	closedir(proc);
	return count;
}

static double cpu_microseconds(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

int main(int count, char **arguments)
{
	static struct process table[65536];
	int passes = count > 1 ? atoi(arguments[1]) : 20;
	long found = scan(table, 65536);
	double started = cpu_microseconds();
	for (int pass = 0; pass < passes; pass++)
		found = scan(table, 65536);
	printf("%d %ld %.1f\n", passes, found, (cpu_microseconds() - started) / passes);
	return 0;
}
