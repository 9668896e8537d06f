#include "names.h"

#include <string.h>

bool import_ends(const char *name, const char *with)
{
    size_t n = strlen(name), m = strlen(with);
    return n >= m && strcmp(name + n - m, with) == 0;
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
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
        if (begins(name, parts[i]) || (begins(name, "model.") && begins(name + 6, parts[i])))
            return true;
    return false;
}

bool import_not_needed_to_embed(const char *name)
{
    static const char *const prefixes[] = {"bert.", "roberta.", "distilbert.", "model."},
                             *const parts[] = {
                                 "pooler.", "cls.predictions.", "cls.seq_relationship.",
                                 "embeddings.position_ids", "lm_head.", "head.", "decoder.",
                                 "vocab_transform.", "vocab_layer_norm.", "vocab_projector."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins(name, prefixes[i])) {
            name += strlen(prefixes[i]);
            break;
        }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (begins(name, parts[i]))
            return true;
    return false;
}
