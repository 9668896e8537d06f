#define _WIN32_WINNT 0x0a00
#include "service.h"

#include <signal.h>
#include <winsock2.h>

/* Another program ends the server by Ctrl-Break. */
const struct service_signals service_signals = {{SIGBREAK, SIGINT}, 0};

void service_begin(void)
{
    WSADATA data;
    WSAStartup(MAKEWORD(2, 2), &data);
}

void service_end(void) { WSACleanup(); }

int service_socket(const char **count)
{
    *count = "0";
    return -1;
}

void service_ready(void) {} /* no one waits for it */
