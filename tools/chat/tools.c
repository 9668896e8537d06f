#include "tools.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "process.h"

int tools_open(struct tools *t, const char *path, const struct template_format *f)
{
    struct tft_error err;
    t->path = path;
    int status = tool_file_read(&t->file, path);
    if (status != CLI_OK)
        return status;
    if (tft_chat_tools_open(&t->declared, t->file.json, t->file.n_json, template_calls(f), 0,
                            &err) != TFT_OK ||
        tft_chat_tools_ask(&t->ask, t->declared, &err) != TFT_OK)
        return cli_fail("%s: %s", path, err.msg);
    t->shown = (struct template_tools){t->file.framed, t->ask.p, t->ask.n};
    return CLI_OK;
}

void tools_close(struct tools *t)
{
    tft_chat_text_free(&t->ask);
    tft_chat_tools_close(t->declared);
    tool_file_free(&t->file);
}

size_t tools_find(const struct tools *t, const char *name, size_t n)
{
    size_t i = 0;
    for (; i < t->file.n; i++) {
        const char *is = tft_chat_tools_name(t->declared, i);
        if (strlen(is) == n && memcmp(is, name, n) == 0)
            break;
    }
    return i;
}

/* ---- running */

CLI_PRINTF(2, 3) static bool say(struct cli_text *out, const char *fmt, ...)
{
    char text[160];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    return (!out->n || cli_text_append(out, "\n", 1)) && cli_text_append(out, text, len);
}

/* How a command ended, if it did not end well. */
static bool say_end(struct cli_text *out, const struct process_result *r, uint32_t seconds)
{
    switch (r->end) {
    case PROCESS_EXITED:
        return !r->code || say(out, "[the command failed with the exit status %d]", r->code);
    case PROCESS_SIGNAL: return say(out, "[the command was ended by the signal %d]", r->code);
    case PROCESS_TIME:
        return say(out, "[the command was stopped after %u seconds]", (unsigned)seconds);
    case PROCESS_INTERRUPT: return say(out, "[the user stopped the command]");
    default: return say(out, "[the command could not be started: %s]", strerror(r->code));
    }
}

/* The number of bytes at the end that are the start of a character. */
static size_t cut_character(const struct cli_text *out)
{
    for (size_t n = 1; n < 4 && n <= out->n; n++) {
        uint32_t c;
        tft_utf8_next(out->p + out->n - n, n, &c);
        if (c == TFT_UTF8_CUT)
            return n;
    }
    return 0;
}

bool tools_run(const struct tools *t, size_t tool, const struct cli_text *arguments,
               struct cli_text *out)
{
    const struct tool_command *c = &t->file.command[tool];
    struct process p = {
        .argv = (const char *const *)c->argv,
        .in = arguments->p,
        .n_in = arguments->n,
        .most = c->bytes,
        .seconds = c->seconds,
    };
    struct process_result r;
    process_run(&p, &r);
    *out = r.out;
    size_t cut = r.left_out ? cut_character(out) : 0;
    out->n -= cut;
    if (!r.left_out && out->n && out->p[out->n - 1] == '\n')
        out->n--;
    if (r.left_out && !say(out, "[%zu more bytes of output are left out]", r.left_out + cut))
        return false;
    return say_end(out, &r, c->seconds);
}
