#include "names.h"

#include <string.h>

bool import_ends(const char *name, const char *with)
{
    size_t n = strlen(name), m = strlen(with);
    return n >= m && strcmp(name + n - m, with) == 0;
}

bool import_not_needed(const char *name)
{
    static const char *const ends_with[] = {"rotary_emb.inv_freq", ".attn.bias",
                                            ".attn.masked_bias", ".attention.bias",
                                            ".attention.masked_bias"},
                             *const parts[] = {
                                 "vision_tower.",          "vision_model.", "visual.",
                                 "multi_modal_projector.", "mtp.",          "audio_tower.",
                                 "embed_vision.",          "embed_audio.",  "vision_embedder.",
                                 "mtp_block.", "mtp_emb_norm.", "mtp_hidden_norm.",
                                 "mtp_linear_proj."}; /* the last four: ernie4_5-moe */
    for (size_t i = 0; i < sizeof ends_with / sizeof *ends_with; i++)
        if (import_ends(name, ends_with[i]))
            return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(name, parts[i], strlen(parts[i])) == 0 ||
            (strncmp(name, "model.", 6) == 0 && strncmp(name + 6, parts[i], strlen(parts[i])) == 0))
            return true;
    return false;
}
