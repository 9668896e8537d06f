/* Checks every kernel of every ISA level that this machine has. */
#include "check.h"

#include <stdio.h>
#include <string.h>

/* Members of struct tft_kernels that the ISA level replaced and that have no case. Prints each. */
static unsigned uncovered(const struct check *c)
{
    unsigned missing = 0;
    for (size_t i = 0; i < sizeof *c->now; i += sizeof(void *)) {
        const char *now = (const char *)c->now + i;
        bool replaced = !c->below || memcmp(now, (const char *)c->below + i, sizeof(void *)) != 0;
        const void *member;
        memcpy(&member, now, sizeof member);
        if (i != offsetof(struct tft_kernels, name) && replaced && member && !c->covered[i]) {
            fprintf(stderr, "%s: the member at byte %zu of struct tft_kernels has no case\n",
                    c->now->name, i);
            missing++;
        }
    }
    return missing;
}

int main(int argc, char **argv)
{
    struct check c = check_start(argc, argv);
    uint64_t seed = c.rng;

    struct tft_kernels isa[8];
    unsigned failures = 0;
    memset(isa, 0, sizeof isa);
    int n = tft_kernels_isas();
    for (int i = 0; i < n; i++) {
        tft_kernels_fill(&isa[i], i);
        c.ref = &isa[0];
        c.below = i ? &isa[i - 1] : NULL;
        c.now = &isa[i];
        c.checked = c.failed = 0;
        check_gemm(&c);
        check_rows(&c);
        check_gates(&c);
        check_attention(&c);
        check_int8(&c);
        check_low(&c);
        check_packed(&c);
        check_codes(&c);
        check_fit(&c);
        check_state(&c);
        check_free();
        failures += c.failed + (c.only ? 0 : uncovered(&c));
        printf("%s: %u kernels checked, %u failures\n", c.now->name, c.checked, c.failed);
    }
    if (failures)
        printf("repeat with --seed %llu\n", (unsigned long long)seed);
    return failures ? 1 : 0;
}
