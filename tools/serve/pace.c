#include "pace.h"

size_t pace_tokens(const struct pace *p)
{
    size_t n = p->token_ns ? PACE_MS * 1000000ull / p->token_ns : PACE_FIRST;
    return n < PACE_LEAST ? PACE_LEAST : n;
}

void pace_count(struct pace *p, size_t tokens, uint64_t ns)
{
    if (tokens < PACE_LEAST)
        return;
    p->token_ns = p->token_ns ? (3 * p->token_ns + ns / tokens) / 4 : ns / tokens;
}
