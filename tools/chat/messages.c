#include "messages.h"

#include <stdlib.h>
#include <string.h>

static void free_message(struct template_message *x)
{
    free(x->text.p);
    free(x->name.p);
    free(x->arguments.p);
}

void messages_free(struct messages *m)
{
    messages_drop(m, 0, m->n);
    free(m->p);
}

/* Makes room for n more. */
static bool reserve(struct messages *m, size_t n)
{
    if (n <= m->room - m->n)
        return true;
    size_t room = (m->n + n) * 2;
    struct template_message *more = realloc(m->p, room * sizeof *more);
    if (!more)
        return false;
    m->p = more;
    m->room = room;
    return true;
}

bool messages_add(struct messages *m, enum template_role role, const char *p, size_t n)
{
    struct template_message x = {.role = role};
    if (!reserve(m, 1) || !cli_text_append(&x.text, p, n))
        return false;
    m->p[m->n++] = x;
    return true;
}

bool messages_add_result(struct messages *m, const char *p, size_t n)
{
    if (!messages_add(m, TEMPLATE_TOOL, p, n))
        return false;
    const struct cli_text *name = &m->p[m->n - 2].name;
    return cli_text_append(&m->p[m->n - 1].name, name->p, name->n);
}

bool messages_set_system(struct messages *m, const char *p, size_t n)
{
    size_t had = messages_first(m);
    if (!messages_add(m, TEMPLATE_SYSTEM, p, n))
        return false;
    struct template_message system = m->p[m->n - 1];
    if (had)
        free_message(&m->p[0]);
    memmove(m->p + 1, m->p + had, (m->n - 1 - had) * sizeof *m->p);
    m->p[0] = system;
    m->n -= had;
    return true;
}

const struct cli_text *messages_system(const struct messages *m)
{
    return messages_first(m) ? &m->p[0].text : NULL;
}

size_t messages_first(const struct messages *m) { return m->n && m->p[0].role == TEMPLATE_SYSTEM; }

size_t messages_last(const struct messages *m)
{
    for (size_t at = m->n; at > 0; at--)
        if (m->p[at - 1].role == TEMPLATE_USER)
            return at - 1;
    return m->n;
}

size_t messages_next(const struct messages *m, size_t turn)
{
    do
        turn++;
    while (turn < m->n && m->p[turn].role != TEMPLATE_USER);
    return turn;
}

bool messages_whole(const struct messages *m)
{
    const struct template_message *last = m->n ? &m->p[m->n - 1] : NULL;
    return !last || last->role == TEMPLATE_SYSTEM ||
           (last->role == TEMPLATE_ASSISTANT && !last->name.n);
}

bool messages_takes(const struct messages *m, enum template_role role)
{
    const struct template_message *last = m->n ? &m->p[m->n - 1] : NULL;
    switch (role) {
    case TEMPLATE_SYSTEM: return !last;
    case TEMPLATE_USER: return messages_whole(m);
    case TEMPLATE_TOOL: return last && last->role == TEMPLATE_ASSISTANT && last->name.n;
    default: return last && (last->role == TEMPLATE_USER || last->role == TEMPLATE_TOOL);
    }
}

void messages_drop(struct messages *m, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        free_message(&m->p[i]);
    if (end < m->n)
        memmove(m->p + from, m->p + end, (m->n - end) * sizeof *m->p);
    m->n -= end - from;
}

bool messages_append(struct messages *m, struct messages *more)
{
    if (!reserve(m, more->n))
        return false;
    if (more->n)
        memcpy(m->p + m->n, more->p, more->n * sizeof *m->p);
    m->n += more->n;
    more->n = 0;
    return true;
}

bool messages_cut(struct messages *m, size_t from, struct messages *out)
{
    struct messages tail = {.p = m->p + from, .n = m->n - from};
    if (!messages_append(out, &tail))
        return false;
    m->n = from;
    return true;
}
