#include "hash.h"

#include <string.h>

#include "inside.h"
#include "tools/cli/cli.h"

/* FNV-1a of the numbers' bits, the lowest byte first. */
static uint64_t add(uint64_t h, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        for (int k = 0; k < 32; k += 8)
            h = (h ^ (bits >> k & 255)) * 0x100000001b3;
    }
    return h;
}

static enum tft_status read_tokens(uint64_t *hash, struct tft_session *s, const int32_t *ids,
                                   uint32_t n_vocab)
{
    enum tft_status status = tft_prefill(s, ids, HASH_PROMPT);
    *hash = 0xcbf29ce484222325;
    for (uint32_t i = HASH_PROMPT; status == TFT_OK; i++) {
        const float *logits = tft_logits(s, 0);
        if (!logits)
            return tft_session_error(s)->code;
        *hash = add(*hash, logits, n_vocab);
        if (i == HASH_TOKENS)
            break;
        status = tft_decode(s, ids[i]);
    }
    return status;
}

int hash_logits(uint64_t *hash, const struct tft_model *m, const int32_t *ids)
{
    struct tft_session_opts o = {.capacity = cli_context(HASH_TOKENS)};
    struct tft_session *s;
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    if (cli_open_session(&s, m, &o) != CLI_OK)
        return CLI_FAILED;
    int result = read_tokens(hash, s, ids, info.n_vocab) == TFT_OK ? CLI_OK : cli_fail_session(s);
    tft_session_close(s);
    return result;
}

const char *hash_kernels(int i) { return i < tft_kernels_isas() ? tft_kernels_name(i) : NULL; }
