#include "fisher_bits.h"

#include <stdlib.h>

#include "plot.h"
#include "run/session.h"

static void read_layer(struct fisher_bits *b, const struct tft_kv_shape *shape, uint32_t l,
                       float price)
{
    struct tft_kv_heads heads = tft_fisher_heads(shape);
    for (enum tft_kv_which which = TFT_KV_K; which < TFT_KV_SIDES; which++)
        for (uint32_t i = 0; i < heads.n; i++) {
            struct tft_fisher_head h = {0};
            uint32_t channels[TFT_FISHER_CHOICES];
            double *share = b->share[which] + (size_t)b->n * TFT_FISHER_CHOICES;
            tft_fisher_share(&h, shape, which, tft_fisher_table(shape, which, l, i), price);
            tft_fisher_count(&h, which, channels);
            for (int k = 0; k < TFT_FISHER_CHOICES; k++)
                share[k] += channels[k] / ((double)heads.n * heads.dim);
        }
    b->layer[b->n++] = l;
}

bool fisher_bits_read(struct fisher_bits *b, const struct tft_model *m, const char *kv)
{
    struct tft_kv_policy policy;
    struct tft_kv_shape shape = tft_model_kv_shape(m);
    b->wanted = tft_kv_parse(&policy, kv, NULL) == TFT_OK && tft_kv_is_fisher(&policy);
    if (!b->wanted || !m->kv_fisher[TFT_KV_K] || !tft_fisher_fits(&shape))
        return true;
    b->layer = malloc(m->n_kv_layer * sizeof *b->layer);
    for (int i = 0; i < TFT_KV_SIDES; i++)
        b->share[i] = calloc(m->n_kv_layer, TFT_FISHER_CHOICES * sizeof *b->share[i]);
    if (!b->layer || !b->share[TFT_KV_K] || !b->share[TFT_KV_V])
        return false;
    float price = tft_fisher_price(&shape, tft_kv_bits(&policy.k, 0));
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        if (!tft_model_kv_window(m, l))
            read_layer(b, &shape, l, price);
    return true;
}

double fisher_bits_mean(const struct fisher_bits *b, enum tft_kv_which which)
{
    double sum = 0;
    for (size_t i = 0; i < (size_t)b->n * TFT_FISHER_CHOICES; i++)
        sum += b->share[which][i] * tft_fisher_choices[i % TFT_FISHER_CHOICES];
    return sum / b->n;
}

void fisher_bits_draw(const struct fisher_bits *b, const char *title, FILE *f)
{
    static const char *const parts[TFT_FISHER_CHOICES] = {"0 bits", "1 bit",  "2 bits",
                                                          "3 bits", "4 bits", "8 bits"};
    static const char *const panels[TFT_KV_SIDES] = {"keys", "values"};
    plot_shares(f, &(struct plot_shares){.title = title,
                                         .x_title = "channels",
                                         .y_title = "layer",
                                         .panel = panels,
                                         .part = parts,
                                         .row = b->layer,
                                         .rows = b->n,
                                         .n_parts = TFT_FISHER_CHOICES,
                                         .n_panels = TFT_KV_SIDES,
                                         .share = (const double *const *)b->share});
}

void fisher_bits_free(struct fisher_bits *b)
{
    free(b->layer);
    free(b->share[TFT_KV_K]);
    free(b->share[TFT_KV_V]);
    *b = (struct fisher_bits){0};
}
