/* Sends prepared HTTP requests over many connections and measures how long each answer takes.
 *
 *     cc -O2 -o load benchmarks/load.c
 *     ./load PORT SECONDS RATE CONNECTIONS fresh|kept FILE
 *
 * FILE holds whole requests, each after its length as a native uint32. They are sent in turn, round and round. The
 * nine digits that follow `"sequence":` are counted up with each round, so that no heartbeat is a replay.
 * RATE 0: every connection sends its next request as soon as it has its answer. Otherwise so many requests a second are
 * due at even spaces, and an answer's time counts from when its request was due, however late it could be sent.
 * "fresh": a connection a request, as agents do. "kept": CONNECTIONS connections, used again and again.
 * Prints one line of JSON.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct request {
	char *text, *sequence;
	uint32_t length;
};

struct connection {
	int fd;		/* -1: none is open */
	int used;	/* answers so far */
	struct request *request;
	double due;
	uint32_t sent;
	size_t got, wanted;	/* bytes of the answer; wanted is 0 until its head was read */
	char answer[65536];
};

static struct sockaddr_in address;
static int poller, fresh;
static struct request *requests;
static size_t count, next;
static long round_number = 100000000, answered, refused, failed;
static double *times;
static size_t capacity;
static long received;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void load_requests(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint32_t length;
	if (!file)
		exit(2);
	while (fread(&length, 4, 1, file) == 1) {
		struct request *request;
		if (count % 1024 == 0)
			requests = realloc(requests, (count + 1024) * sizeof *requests);
		request = &requests[count++];
		request->length = length;
		request->text = malloc(length + 1);
		if (fread(request->text, 1, length, file) != length)
			exit(2);
		request->text[length] = 0;
		request->sequence = memmem(request->text, length, "\"sequence\":", 11);
		if (request->sequence)
			request->sequence += 11;
	}
	fclose(file);
}

static struct request *next_request(void)
{
	struct request *request = &requests[next];
	char digits[16];
	if (request->sequence) {
		snprintf(digits, sizeof digits, "%09ld", round_number);
		memcpy(request->sequence, digits, 9);
	}
	if (++next == count) {
		next = 0;
		round_number++;
	}
	return request;
}

static void watch(struct connection *connection, uint32_t events, int operation)
{
	struct epoll_event event = {.events = events, .data.ptr = connection};
	epoll_ctl(poller, operation, connection->fd, &event);
}

static void drop(struct connection *connection)
{
	close(connection->fd);
	connection->fd = -1;
}

static void send_rest(struct connection *connection)
{
	struct request *request = connection->request;
	ssize_t sent = send(connection->fd, request->text + connection->sent, request->length - connection->sent, MSG_NOSIGNAL);
	if (sent > 0)
		connection->sent += sent;
	watch(connection, connection->sent < request->length ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
}

static void begin(struct connection *connection, double due)
{
	int one = 1;
	connection->due = due;
	connection->request = next_request();
	connection->sent = 0;
	connection->got = connection->wanted = 0;
	if (connection->fd < 0) {
		connection->used = 0;
		connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) {
			failed++;
			drop(connection);
			connection->request = NULL;
			return;
		}
		watch(connection, EPOLLOUT, EPOLL_CTL_ADD);
	} else
		send_rest(connection);
}

static void finish(struct connection *connection, int good)
{
	if (good) {
		if ((size_t)(answered + refused) == capacity)
			times = realloc(times, (capacity = capacity ? 2 * capacity : 65536) * sizeof *times);
		times[answered + refused] = now() - connection->due;
		if (connection->answer[9] == '2')
			answered++;
		else
			refused++;
	} else
		failed++;
	connection->request = NULL;
	connection->used++;
	if (fresh || !good || memmem(connection->answer, connection->got < 1024 ? connection->got : 1024, "onnection: close", 16))
		drop(connection);
}

/* Bytes of the answer, from its head; 0 while that isn't whole. */
static size_t whole(struct connection *connection)
{
	size_t seen = connection->got < sizeof connection->answer ? connection->got : sizeof connection->answer;
	char *end = memmem(connection->answer, seen, "\r\n\r\n", 4);
	char *field;
	if (!end)
		return 0;
	connection->answer[end - connection->answer + 2] = 0;
	field = strcasestr(connection->answer, "\r\ncontent-length:");
	return end + 4 - connection->answer + (field ? strtoul(field + 17, NULL, 10) : 0);
}

static void receive(struct connection *connection)
{
	static char rest[1 << 20];
	for (;;) {
		int keeping = connection->got < sizeof connection->answer;
		char *into = keeping ? connection->answer + connection->got : rest;
		ssize_t got = recv(connection->fd, into, keeping ? sizeof connection->answer - connection->got : sizeof rest, 0);
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			finish(connection, 0);
			return;
		}
		connection->got += got;
		received += got;
		if (!connection->wanted)
			connection->wanted = whole(connection);
		if (connection->wanted && connection->got >= connection->wanted) {
			finish(connection, 1);
			return;
		}
	}
}

static int by_size(const void *left, const void *right)
{
	double difference = *(const double *)left - *(const double *)right;
	return difference < 0 ? -1 : difference > 0;
}

static double percentile(double share)
{
	long counted = answered + refused;
	return counted ? times[(long)(share * (counted - 1))] * 1e3 : 0;
}

int main(int argc, char **argv)
{
	double seconds = atof(argv[2]), rate = atof(argv[3]), started, ended, due;
	int size = atoi(argv[4]), free_ones;
	struct connection *connections = calloc(size, sizeof *connections);
	struct epoll_event events[256];
	long begun = 0, overdue = 0;

	if (argc != 7)
		return 2;
	fresh = !strcmp(argv[5], "fresh");
	load_requests(argv[6]);
	address.sin_family = AF_INET;
	address.sin_port = htons(atoi(argv[1]));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	poller = epoll_create1(0);
	for (int i = 0; i < size; i++)
		connections[i].fd = -1;
	started = now();
	for (;;) {
		double at = now();
		int open = 0, found;
		if (at - started < seconds) {
			free_ones = 0;
			for (int i = 0; i < size; i++) {
				if (connections[i].request)
					continue;
				due = rate ? started + begun / rate : at;
				if (due > at || due - started >= seconds)
					break;
				begin(&connections[i], due);
				begun++;
				free_ones++;
			}
			if (!free_ones && rate && started + begun / rate < at)
				overdue++;
		}
		for (int i = 0; i < size; i++)
			open += connections[i].request != NULL;
		if (!open && at - started >= seconds)
			break;
		if (at - started > seconds + 20)
			break;
		found = epoll_wait(poller, events, 256, rate ? 1 : 100);
		for (int i = 0; i < found; i++) {
			struct connection *connection = events[i].data.ptr;
			if (!connection->request) {
				char byte;
				if (recv(connection->fd, &byte, 1, 0) <= 0)
					drop(connection);
			} else if (events[i].events & EPOLLOUT)
				send_rest(connection);
			else
				receive(connection);
		}
	}
	ended = now();
	for (int i = 0; i < size; i++)
		failed += connections[i].request != NULL;
	qsort(times, answered + refused, sizeof *times, by_size);
	printf("{\"answered\": %ld, \"refused\": %ld, \"failed\": %ld, \"seconds\": %.3f, \"rate\": %.1f, \"p50_ms\": %.3f, "
	       "\"p99_ms\": %.3f, \"longest_ms\": %.3f, \"bytes\": %ld}\n",
	       answered, refused, failed, ended - started, (answered + refused) / (ended - started), percentile(0.5),
	       percentile(0.99), percentile(1), received);
	return 0;
}
