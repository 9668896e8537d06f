/* Every kernel of every rung that this machine has. */
#include "check.h"

#include <stdio.h>
#include <string.h>

/* Every slot that a rung replaces must have had a case. */
static unsigned uncovered(const struct check *c)
{
    unsigned missing = 0;
    for (size_t at = 0; at < sizeof *c->now; at += sizeof(void *)) {
        bool changed = !c->below || memcmp((const char *)c->now + at, (const char *)c->below + at,
                                           sizeof(void *)) != 0;
        const void *slot;
        memcpy(&slot, (const char *)c->now + at, sizeof slot);
        if (at != offsetof(struct tft_kernels, name) && changed && slot && !c->covered[at]) {
            fprintf(stderr, "%s: the slot at byte %zu of struct tft_kernels has no case\n",
                    c->now->name, at);
            missing++;
        }
    }
    return missing;
}

int main(int argc, char **argv)
{
    struct check c = check_start(argc, argv);
    uint64_t seed = c.rng;

    struct tft_kernels rung[8];
    unsigned bad = 0;
    memset(rung, 0, sizeof rung);
    int n = tft_kernels_rungs();
    for (int i = 0; i < n; i++) {
        tft_kernels_fill(&rung[i], i);
        c.ref = &rung[0];
        c.below = i ? &rung[i - 1] : NULL;
        c.now = &rung[i];
        c.checked = c.failed = 0;
        check_gemm(&c);
        check_rows(&c);
        check_attention(&c);
        check_int8(&c);
        check_codes(&c);
        check_free();
        bad += c.failed + (c.only ? 0 : uncovered(&c));
        printf("%s: %u kernels checked, %u failures\n", c.now->name, c.checked, c.failed);
    }
    if (bad)
        printf("repeat with --seed %llu\n", (unsigned long long)seed);
    return bad ? 1 : 0;
}
