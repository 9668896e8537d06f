/* What the system does for a server: service_posix.c and service_windows.c. */
#ifndef SERVE_SERVICE_H
#define SERVE_SERVICE_H

/* Called before the first socket, and after the last. */
void service_begin(void);
void service_end(void);

/* The signals that end the server, and the one for reading files again; 0: the system has none. */
struct service_signals {
    int end[2], hang_up;
};
extern const struct service_signals service_signals;

/* The socket that systemd listens at until the first client comes (sd_listen_fds(3)), and the
   number of sockets as systemd has it in a text; -1: none. */
int service_socket(const char **count);

/* Tells systemd that the server is ready, if systemd started the program (sd_notify(3)). */
void service_ready(void);

#endif
