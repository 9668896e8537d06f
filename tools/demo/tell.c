/* teach-tell CHECKPOINT TOKENIZER [TEMPERATURE [SEED [STORIES [PROMPT]]]]: stories of a checkpoint, to see how it is doing. */
#include "checkpoint.h"
#include "decode.h"
#include "spm.h"
#include "tool.h"

#include <stdlib.h>

static int choose(float *z, int n, float temperature, uint64_t *random)
{
    int best = 0;
    float sum = 0;
    for (int i = 1; i < n; i++)
        if (z[i] > z[best])
            best = i;
    if (temperature <= 0)
        return best;
    float max = z[best];
    for (int i = 0; i < n; i++)
        sum += z[i] = expf((z[i] - max) / temperature);
    float at = random_unit(random) * sum;
    for (int i = 0; i < n; i++)
        if ((at -= z[i]) < 0)
            return i;
    return best;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        die("usage: teach-tell CHECKPOINT TOKENIZER [TEMPERATURE [SEED [STORIES [PROMPT]]]]");
    struct shape s;
    float *flat = checkpoint_read(&s, argv[1]);
    struct params w = params_at(&s, flat);
    struct spm spm;
    spm_read(&spm, argv[2]);
    float temperature = argc > 3 ? (float)atof(argv[3]) : 0;
    uint64_t random = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    struct decoder *d = decoder_open(&s, &w, 1);
    for (int stories = argc > 5 ? atoi(argv[5]) : 1; stories > 0; stories--) {
        char text[1024];
        uint16_t token[1024] = {ID_BOS};
        int n = 1, len = argc > 6 ? snprintf(text, sizeof text, " %s", argv[6]) : 0;
        n += spm_encode(&spm, text, len, token + 1, NULL);
        for (int pos = 0; pos < s.context; pos++) {
            float *z = decoder_step(d, &token[pos], &pos);
            if (pos + 1 == n)
                token[n++] = (uint16_t)choose(z, s.vocab, temperature, &random);
            if (token[pos + 1] == ID_BOS || token[pos + 1] == ID_EOS || n == s.context)
                break;
            const char *piece = spm_text(&spm, token[pos + 1], &len);
            fwrite(piece, 1, (size_t)len, stdout);
        }
        puts("\n");
    }
    return 0;
}
