#define _POSIX_C_SOURCE 200809L
#include "service.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const struct service_signals service_signals = {{SIGTERM, SIGINT}, SIGHUP};

/* Each connection takes a descriptor: allow as many as the system does. */
static void raise_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}

void service_begin(void)
{
    signal(SIGPIPE, SIG_IGN);
    raise_limit();
}

void service_end(void) {} /* sockets need nothing */

int service_socket(const char **count)
{
    const char *pid = getenv("LISTEN_PID");
    *count = getenv("LISTEN_FDS");
    return pid && *count && strtol(pid, NULL, 10) == getpid() ? 3 : -1;
}

void service_ready(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path ? strlen(path) : 0;
    if (!n || n >= sizeof a.sun_path)
        return;
    memcpy(a.sun_path, path, n);
    if (*path == '@') /* a name, not a file */
        a.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0)
        return;
    ssize_t sent = sendto(fd, "READY=1", 7, 0, (struct sockaddr *)&a,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    (void)sent;
    close(fd);
}
