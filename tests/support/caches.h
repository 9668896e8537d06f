/* Quantized caches with every kind of codes, every way to quantize tokens and slots of int8, and a
   model for them. */
#ifndef TFT_TEST_CACHES_H
#define TFT_TEST_CACHES_H

#include "toy.h"

static const struct {
    const char *kv;
    const char *file; /* the cache that the model file must be calibrated for, or NULL */
} caches[] = {
    {"rtn", NULL},
    {"kivi:window=48,bits=4", NULL},
    {"logquant:window=21", NULL},
    {"partial-logquant:window=8,prefill=75", NULL},
    {"asymkv:lk=1,window=32", NULL},
    {"skvq:reorder=none,clip=zero,window=33,v=1.5,group=16", NULL},
    {"tuffet:k=2.25@mixed,window=20,group=32", NULL},
    {"k=1@token,v=3@channel,group=16,retain=fill:32,sinks=3", NULL},
    {"k=8@channel,v=8@token,retain=window:0,clip=centre", NULL},
    {"k=8@token,v=16,group=16,retain=window:5", NULL},
    {"k=16,v=8@channel,retain=log2:2,scales=f8", NULL},
    {"k=1.5@channel,v=4@token,group=128,retain=fill:16", NULL},
    {"skvq:k=3,window=17,group=16", "skvq:k=3,group=16"},
    {"kivi:window=24,prefill=70,clip=zero,scales=f8", NULL},
    {"kivi:kr=fill:40,vr=window:20", NULL},
    {"k=16,v=8@channel,group=16,kr=window:3,vr=log2:9,sinks=3", NULL},
    {"skvq:k=3,kr=log2:11,vr=fill:24,group=16,prefill=100", "skvq:k=3,group=16"},
    {"tuffet:k=2.25@mixed,window=20,group=32,slots=i8", NULL},
    {"k=16,v=8@channel,retain=log2:11,slots=i8", NULL},
    {"i8", NULL}, /* without blocks */
};
enum { N_CACHES = sizeof caches / sizeof *caches, N_BLOCK_CACHES = N_CACHES - 1 };

static const struct toy small = {.arch = "llama",
                                 .n_vocab = 31,
                                 .n_ctx = 640,
                                 .n_embd = 24,
                                 .n_layer = 2,
                                 .n_head = 6,
                                 .n_head_kv = 2,
                                 .head_dim = 20,
                                 .n_ff = 32,
                                 .n_rot = 20,
                                 .type = TFT_F32};

#endif
