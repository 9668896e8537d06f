/* Reads arguments that are not a JSON object, a character at a time: names and values between texts
   of the format. */
#include "call.h"

#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static void put(struct call_members *m, const char *p, size_t n)
{
    if (n)
        memcpy(m->out + m->n_out, p, n);
    m->n_out += n;
}

static bool is_raw(const struct call_members *m)
{
    const struct jinja_list *l = m->f->members.until ? m->tool->member : NULL;
    for (size_t i = 0; l && i < l->n; i++)
        if (l->item[i].string->n == m->n_name &&
            memcmp(l->item[i].string->p, m->name, m->n_name) == 0)
            return m->tool->raw[i];
    return m->f->members.until; /* not declared: a model without the grammar wrote it */
}

static enum call_took end_arguments(struct call_members *m)
{
    put(m, "{", !m->n_members);
    put(m, "}", 1);
    return CALL_BEFORE;
}

static enum call_took take_name(struct call_members *m, const char *p)
{
    if (is_space(*p))
        return CALL_MORE;
    if (m->n_name && *p == *m->f->members.middle) {
        put(m, "\": ", 3);
        m->raw = is_raw(m);
        m->first = true;
        m->value = (struct call_value){.python = true,
                                       .mark = m->f->spelling ? m->f->spelling->mark : NULL,
                                       .place = CALL_VALUE};
        m->place = MEMBER_VALUE;
        return CALL_MORE;
    }
    if (!tft_schema_is_plain(*p) || m->n_name == CALL_NAME)
        return CALL_BAD;
    if (!m->n_name) {
        put(m, m->n_members ? ", \"" : "{\"", m->n_members ? 3 : 2);
        m->n_members++;
    }
    m->name[m->n_name++] = *p;
    put(m, p, 1);
    return CALL_MORE;
}

/* Takes a character of a value. A string without quotes begins after one line end. */
static enum call_took take_value(struct call_members *m, const char *p, size_t n)
{
    if (m->first && m->raw) {
        tft_call_begin_raw(&m->value, m->f->members.until, true);
        put(m, m->value.out, m->value.n_out);
        m->first = false;
        if (*p == '\n')
            return CALL_MORE;
    }
    m->first = false;
    enum call_took took = tft_call_take(&m->value, p, n);
    put(m, m->value.out, m->value.n_out);
    if (took == CALL_LAST || took == CALL_BEFORE) {
        m->at = m->raw ? strlen(m->f->members.after) : 0;
        m->place = MEMBER_AFTER;
    }
    return took == CALL_LAST ? CALL_MORE : took;
}

enum call_took tft_call_take_member(struct call_members *m, const char *p, size_t n)
{
    const struct schema_members *as = &m->f->members;
    m->n_out = 0;
    for (;;)
        switch (m->place) {
        case MEMBER_START:
            if (is_space(*p))
                return CALL_MORE;
            if (*p == m->f->end && m->at == strlen(as->close))
                return end_arguments(m);
            if (as->before[m->at] && *p != as->before[m->at])
                return CALL_BAD;
            if (as->before[m->at] && as->before[++m->at])
                return CALL_MORE;
            m->n_name = 0;
            m->place = MEMBER_NAME;
            if (*as->before)
                return CALL_MORE;
            break;
        case MEMBER_NAME: return take_name(m, p);
        case MEMBER_VALUE: {
            enum call_took took = take_value(m, p, n);
            if (took != CALL_BEFORE)
                return took;
            break;
        }
        case MEMBER_AFTER:
            while (is_space(as->after[m->at]))
                m->at++;
            if (!as->after[m->at]) {
                m->at = 0;
                m->place = *as->comma ? MEMBER_COMMA : MEMBER_START;
                break;
            }
            if (!is_space(*p) && *p != as->after[m->at++])
                return CALL_BAD;
            return CALL_MORE;
        case MEMBER_COMMA:
            if (*p == m->f->end)
                return end_arguments(m);
            if (!is_space(*p) && *p != *as->comma)
                return CALL_BAD;
            m->place = is_space(*p) ? MEMBER_COMMA : MEMBER_START;
            return CALL_MORE;
        }
}
