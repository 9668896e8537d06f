#include "saved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "base/new_file.h"
#include "tools/cli/system.h"

/* The numbers at the start, little-endian; then the messages, then the session. */
enum {
    VERSION = 1,
    AT_VERSION = 8,
    AT_COUNT = 12,    /* messages */
    AT_MESSAGES = 16, /* u64: their bytes */
    AT_SESSION = 24,  /* u64: bytes of the session; 0: none */
    AT_SUM = 32,      /* CRC-32 of the numbers before it and of the messages. The session has its
                        own */
    HEAD = 36,
    MESSAGE = 16 /* role, and bytes of the text, of the tool's name and of the arguments, u32 */
};
static const char magic[AT_VERSION] = "TFTCHAT\n";

static uint32_t checksum(const unsigned char *head, const void *messages, size_t n)
{
    return tft_crc32(tft_crc32(0, head, AT_SUM), messages, n);
}

/* ---- writing */

static bool add_message(struct cli_text *all, const struct template_message *x)
{
    unsigned char head[MESSAGE];
    const struct cli_text none = {0}; /* a result has the name of its call */
    const struct cli_text *part[] = {&x->text, x->role == TEMPLATE_TOOL ? &none : &x->name,
                                     &x->arguments};
    tft_store_u32(head, x->role);
    for (int i = 0; i < 3; i++) {
        if (part[i]->n > UINT32_MAX)
            return false;
        tft_store_u32(head + 4 + 4 * i, (uint32_t)part[i]->n);
    }
    bool good = cli_text_append(all, (char *)head, sizeof head);
    for (int i = 0; i < 3 && good; i++)
        good = cli_text_append(all, part[i]->p, part[i]->n);
    return good;
}

/* The saved session; *out NULL, after a note, if it cannot be saved. */
static int save_session(const struct conversation *c, void **out, size_t *n)
{
    struct tft_error err;
    struct tft_sampler z = c->sampler;
    z.grammar = NULL; /* each answer begins its form anew */
    *n = tft_session_save_bytes(c->x.s, &z);
    *out = malloc(*n);
    if (!*out)
        return cli_fail("out of memory: the session takes %zu bytes", *n);
    enum tft_status status = tft_session_save_mem(c->x.s, &z, *out, *n, &err);
    if (status == TFT_OK)
        return CLI_OK;
    free(*out);
    *out = NULL;
    *n = 0;
    if (status != TFT_ERR_UNSUPPORTED)
        return cli_fail("%s", err.msg);
    fprintf(stderr, "tuffet: only the messages are saved: the session is on a device\n");
    return CLI_OK;
}

static int write_file(const char *path, const struct cli_text *part, size_t n)
{
    struct tft_new_file *f;
    struct tft_error err;
    int os;
    if (tft_new_file_create(&f, path, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    os = tft_port_private(f->file); /* a replaced file keeps its mode */
    errno = 0;
    for (size_t i = 0; i < n && !os; i++)
        if (part[i].n && fwrite(part[i].p, 1, part[i].n, f->file) != part[i].n)
            os = errno ? errno : EIO;
    enum tft_status end = tft_new_file_end(f, !os, &err);
    return os              ? cli_fail("%s: cannot be written: %s", path, strerror(os))
           : end != TFT_OK ? cli_fail("%s", err.msg)
                           : CLI_OK;
}

int saved_write(const struct conversation *c, const char *path)
{
    const struct messages *m = &c->x.said;
    struct cli_text messages = {0};
    unsigned char head[HEAD];
    void *session = NULL;
    size_t n_session = 0;
    bool good = true;
    if (!cli_may_replace(path, magic))
        return cli_fail("%s: this file is not a saved conversation: give another name",
                        path);
    for (size_t i = 0; i < m->n && good; i++)
        good = add_message(&messages, &m->p[i]);
    int status = good ? save_session(c, &session, &n_session) : cli_fail("out of memory");
    if (status == CLI_OK) {
        memcpy(head, magic, sizeof magic);
        tft_store_u32(head + AT_VERSION, VERSION);
        tft_store_u32(head + AT_COUNT, (uint32_t)m->n);
        tft_store_u64(head + AT_MESSAGES, messages.n);
        tft_store_u64(head + AT_SESSION, n_session);
        tft_store_u32(head + AT_SUM, checksum(head, messages.p, messages.n));
        const struct cli_text part[] = {
            {.p = (char *)head, .n = HEAD}, messages, {.p = session, .n = n_session}};
        status = write_file(path, part, 3);
    }
    if (status == CLI_OK)
        fprintf(stderr, "saved %zu messages, %.1f MB\n", m->n,
                (double)(HEAD + messages.n + n_session) / 1e6);
    free(messages.p);
    free(session);
    return status;
}

/* ---- reading */

/* Adds the message that `x` describes. Returns NULL, or the error. */
static const char *take_message(struct messages *m, const struct template_message *x)
{
    bool calls = x->role == TEMPLATE_ASSISTANT && x->name.n;
    if ((x->name.n || x->arguments.n) && !calls)
        return "a call is in a message of a wrong role, or has no name";
    if (calls && !tft_chat_is_object(x->arguments.p, x->arguments.n))
        return "the arguments of a call are not a JSON object";
    if (x->role == TEMPLATE_SYSTEM && x->text.n && memchr(x->text.p, 0, x->text.n))
        return "the system message has a NUL";
    if (!messages_takes(m, x->role))
        return "messages are out of order";
    bool added = x->role == TEMPLATE_TOOL ? messages_add_result(m, x->text.p, x->text.n)
                                          : messages_add(m, x->role, x->text.p, x->text.n);
    if (added && calls) {
        struct template_message *new = &m->p[m->n - 1];
        added = cli_text_append(&new->name, x->name.p, x->name.n) &&
                cli_text_append(&new->arguments, x->arguments.p, x->arguments.n);
    }
    return added ? NULL : "out of memory";
}

/* Reads `count` messages, p[n]. Returns NULL, or the error. */
static const char *take_messages(struct messages *m, uint32_t count, const unsigned char *p,
                                 size_t n)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < count && !wrong; i++) {
        struct template_message x = {.role = TEMPLATE_TOOL};
        struct cli_text *part[] = {&x.text, &x.name, &x.arguments};
        if (n < MESSAGE || tft_load_u32(p) > TEMPLATE_TOOL)
            return "a message is cut off, or has an unknown role";
        const unsigned char *head = p;
        x.role = (enum template_role)tft_load_u32(p);
        p += MESSAGE;
        n -= MESSAGE;
        for (int k = 0; k < 3; k++) {
            *part[k] =
                (struct cli_text){.p = (char *)(uintptr_t)p, .n = tft_load_u32(head + 4 + 4 * k)};
            if (part[k]->n > n)
                return "a message is cut off";
            p += part[k]->n;
            n -= part[k]->n;
        }
        wrong = take_message(m, &x);
    }
    return wrong                ? wrong
           : n                  ? "there are bytes after the last message"
           : !messages_whole(m) ? "the last answer is missing"
                                : NULL;
}

/* Reads the messages of the file, p[n]. Returns NULL, or the error. */
static const char *take_file(struct messages *m, const unsigned char *p, size_t n)
{
    if (n < HEAD || memcmp(p, magic, sizeof magic) != 0)
        return "not a saved conversation";
    if (tft_load_u32(p + AT_VERSION) != VERSION)
        return "a conversation saved by another version of tuffet";
    uint64_t messages = tft_load_u64(p + AT_MESSAGES), session = tft_load_u64(p + AT_SESSION);
    if (messages > n - HEAD || session != n - HEAD - messages)
        return "the file is cut off, or has bytes after its end";
    if (checksum(p, p + HEAD, (size_t)messages) != tft_load_u32(p + AT_SUM))
        return "the checksum differs: the file is damaged";
    return take_messages(m, tft_load_u32(p + AT_COUNT), p + HEAD, (size_t)messages);
}

/* Whether a message calls a tool. */
static bool has_calls(const struct messages *m)
{
    size_t i = 0;
    while (i < m->n && !m->p[i].name.n)
        i++;
    return i < m->n;
}

/* Gives the session the tokens of the file, if they fit. */
static void take_session(struct conversation *c, const char *path, const unsigned char *p, size_t n)
{
    static const char where[] = "memory: "; /* the library does not know the file */
    struct tft_error err;
    struct tft_sampler z = c->sampler;
    z.grammar = NULL;
    if (tft_session_load_mem(c->x.s, &z, p, n, &err) == TFT_OK) {
        c->sampler.seed = z.seed;
        return;
    }
    size_t skip = strncmp(err.msg, where, sizeof where - 1) == 0 ? sizeof where - 1 : 0;
    fprintf(stderr, "tuffet: %s: %s: its messages are computed again with the next one\n", path,
            err.msg + skip);
}

static int take_all(struct conversation *c, const char *path, const struct tft_map *map)
{
    struct messages said = {0}, before = c->x.said;
    const char *wrong = take_file(&said, map->data, map->size);
    int status = wrong ? cli_fail("%s: %s", path, wrong)
                 : has_calls(&said) && !c->tools.list
                     ? cli_fail("%s: the conversation has calls of tools: give --tools", path)
                     : CLI_OK;
    if (status == CLI_OK) {
        c->x.said = said;
        status = context_rewind(&c->x); /* opens the session that goes with the messages */
        if (status != CLI_OK)
            c->x.said = before;
    }
    if (status != CLI_OK) {
        messages_free(&said);
        return status;
    }
    messages_free(&before);
    c->last = (struct conversation_answer){0};
    uint64_t session = tft_load_u64(map->data + AT_SESSION);
    if (session)
        take_session(c, path, map->data + map->size - session, (size_t)session);
    fprintf(stderr, "loaded %zu messages, %zu tokens\n", c->x.said.n, tft_pos(c->x.s));
    return CLI_OK;
}

int saved_read(struct conversation *c, const char *path)
{
    struct tft_map map;
    int os = tft_port_map(&map, path);
    if (os)
        return cli_fail("%s: cannot be read: %s", path, strerror(os));
    int status = take_all(c, path, &map);
    tft_port_unmap(&map);
    return status;
}
