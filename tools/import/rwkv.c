/* RWKV-7. */
#include "arch.h"
#include "config.h"
#include "own.h"

/* No attention; head_dim is of the state. A text may have any length, whatever a folder says. */
void import_rwkv7_dimensions(struct import *im)
{
    enum { MOST_RANK = 1 << 16, LENGTH = 1 << 20 };
    im->n_ctx = LENGTH;
    im->n_head = 0;
    im->n_head_kv = 1;
    im->rwkv.decay = import_whole(im, "decay_low_rank_dim", IMPORT_NEEDED);
    im->rwkv.rate = import_whole(im, "a_low_rank_dim", IMPORT_NEEDED);
    im->rwkv.value = import_whole(im, "v_low_rank_dim", IMPORT_NEEDED);
    im->rwkv.gate = import_whole(im, "gate_low_rank_dim", IMPORT_NEEDED);
    const uint64_t n[] = {im->rwkv.decay, im->rwkv.rate, im->rwkv.value, im->rwkv.gate};
    for (size_t i = 0; i < sizeof n / sizeof *n && im->status == TFT_OK; i++)
        if (n[i] < 1 || n[i] > MOST_RANK)
            import_unsupported(im, "products of low rank of this size are not supported");
    if (im->n_embd % im->head_dim)
        import_unsupported(im, "\"hidden_size\" is not a multiple of \"head_dim\"");
    import_find(im, "hidden_ratio"); /* the tensors have the width */
}

void import_rwkv7_values(struct import *im)
{
    const struct {
        const char *key;
        uint64_t n;
    } numbers[] = {{"wkv.head_size", im->head_dim},
                   {"attention.decay_lora_rank", im->rwkv.decay},
                   {"attention.iclr_lora_rank", im->rwkv.rate},
                   {"attention.value_residual_mix_lora_rank", im->rwkv.value},
                   {"attention.gate_lora_rank", im->rwkv.gate}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tft_gguf_put_u32(im->gguf, import_key(im, numbers[i].key), (uint32_t)numbers[i].n);
}
