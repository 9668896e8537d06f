#define _POSIX_C_SOURCE 200809L
#include "display.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "terminal.h"
#include "tools/cli/cli.h"

#define DIM "\x1b[2m"
#define PLAIN "\x1b[0m"

static struct {
    /* AT_START: only white space has come so far. IN_THOUGHT: </think> has not come yet. */
    enum { AT_START, IN_THOUGHT, REST } at;
    size_t seen; /* bytes of the next tag that have come but are not printed yet */
} display = {.at = REST};

static const char *tag(void) { return display.at == AT_START ? "<think>" : "</think>"; }

void display_begin(bool in_thought)
{
    bool styles = terminal_styles(STDOUT_FILENO);
    display.at = !styles ? REST : in_thought ? IN_THOUGHT : AT_START;
    display.seen = 0;
    if (styles && in_thought)
        fputs(DIM, stdout);
}

/* Prints the bytes of a tag that have come. */
static bool print_seen(void)
{
    size_t n = display.seen;
    display.seen = 0;
    return cli_put(tag(), n);
}

static bool print_tag(void)
{
    bool begins = display.at == AT_START;
    if (begins)
        fputs(DIM, stdout);
    bool written = print_seen();
    display.at = begins ? IN_THOUGHT : REST;
    if (!begins)
        fputs(PLAIN, stdout);
    return written;
}

/* Number of bytes of p[n] before the first one that may begin the next tag. */
static size_t before_tag(const char *p, size_t n)
{
    const char *next = memchr(p, '<', n);
    if (display.at == IN_THOUGHT)
        return next ? (size_t)(next - p) : n;
    size_t space = 0;
    while (space < n && strchr(" \n", p[space]) && p[space])
        space++;
    if (space < n && p[space] != '<') {
        display.at = REST;
        return n;
    }
    return space;
}

bool display_print(const char *p, size_t n)
{
    bool written = true;
    while (written && n && display.at != REST) {
        size_t taken = 0;
        if (*p == tag()[display.seen]) {
            taken = 1;
            if (!tag()[++display.seen])
                written = print_tag();
        } else if (display.seen) {
            written = print_seen();
            if (display.at == AT_START)
                display.at = REST;
        } else {
            taken = before_tag(p, n);
            written = cli_put(p, taken);
        }
        p += taken;
        n -= taken;
    }
    return written && cli_put(p, n);
}

bool display_end(void)
{
    bool written = print_seen();
    if (display.at == IN_THOUGHT)
        fputs(PLAIN, stdout);
    display.at = REST;
    return written && fflush(stdout) == 0;
}
