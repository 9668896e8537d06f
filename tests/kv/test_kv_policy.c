/* How a cache is written: the policy of each preset and knob; invalid ones fail with a message
   naming them. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "blob.h"
#include "kv/policy.h"
#include "random.h"

static struct tft_kv_policy parsed(const char *text)
{
    struct tft_kv_policy p;
    struct tft_error err;
    if (tft_kv_parse(&p, text, &err) != TFT_OK)
        fail_msg("%s: %s", text, err.msg);
    return p;
}

/* All that a policy says, so that a case is a line: "fill:64 0 32/16 f8 zero C4 T4-1.5" is retain,
   sinks, channels of a group / tokens of a block, scales, clip, then axis and bits of keys and of
   values. Bits are of layer 0, and after "-" of layer 40 if they differ. */
struct says {
    const char *text, *want;
};

#define FILL TFT_KV_FILL
#define WINDOW TFT_KV_WINDOW
#define LOG2 TFT_KV_LOG2

static void print_side(char *to, size_t size, const struct tft_kv_side *side)
{
    static const char axis[] = {[TFT_KV_CHANNEL] = 'C', [TFT_KV_TOKEN] = 'T', [TFT_KV_MIXED] = 'M',
                                [TFT_KV_FISHER] = 'F'};
    double first = (double)tft_kv_bits(side, 0), later = (double)tft_kv_bits(side, 40);
    int n = snprintf(to, size, "%c%.9g", axis[side->axis], first);
    if (later != first)
        snprintf(to + n, size - (size_t)n, "-%.9g", later);
}

static void assert_says(const struct says *of)
{
    static const char *const retain[] = {[FILL] = "fill", [WINDOW] = "window", [LOG2] = "log2"};
    static const char *const clip[] = {[TFT_KV_WHOLE] = "whole",
                                       [TFT_KV_CENTRE] = "centre",
                                       [TFT_KV_ZERO] = "zero",
                                       [TFT_KV_CALIBRATED] = "calibrated"};
    struct tft_kv_policy p = parsed(of->text);
    char k[40], v[40], got[160];
    assert_true(tft_kv_quantizes(&p) && !tft_kv_split(&p));
    assert_int_equal(p.num, TFT_NUM_F16);
    print_side(k, sizeof k, &p.k);
    print_side(v, sizeof v, &p.v);
    snprintf(got, sizeof got, "%s:%u %u %u/%u %s %s %s %s", retain[p.k.retain], p.k.window, p.sinks,
             p.group, tft_kv_block(&p), p.f8 ? "f8" : "f16", clip[p.clip], k, v);
    if (strcmp(got, of->want) != 0)
        fail_msg("%s: %s, not %s", of->text, got, of->want);
}

static void presets_are_what_tuffet_h_says(void **state)
{
    (void)state;
    static const struct says all[] = {
        {"rtn", "fill:32 0 32/32 f16 whole T2 T2"},
        {"kivi", "fill:128 0 32/32 f16 whole C2 T2"},
        {"logquant", "log2:42 0 64/64 f16 whole C2 T2"},
        {"asymkv", "fill:128 0 32/32 f16 whole C2-1 T1"},
        {"skvq", "window:128 5 32/32 f8 calibrated T2 T2"},
        {"fisher", "window:64 4 32/32 f16 whole F1.5 F1.5"},
        {"fisher:bits=0.25,group=256,window=7,sinks=0", "window:7 0 256/32 f16 whole F0.25 F0.25"},
        {"bits=3.999@fisher", "fill:128 0 32/32 f16 whole F3.99900007 F3.99900007"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_says(&all[i]);

    assert_true(parsed("skvq").reorder && !parsed("skvq:reorder=none").reorder &&
                !parsed("kivi").reorder);
    assert_int_equal(parsed("skvq").prefill + parsed("skvq").keep, 0);
    struct tft_kv_policy p = parsed("skvq:prefill=1024,keep=7");
    assert_true(p.prefill == 1024 && p.keep == 7);
    assert_int_equal(parsed("skvq:prefill=1048576").prefill, 1 << 20);
    assert_true(parsed("skvq:prefill=prompt").prefill == TFT_KV_PROMPT);
    assert_int_equal(parsed("fisher").keep, 12);
    assert_true(parsed("tuffet").keep == 12 && parsed("tuffet").sinks == 4);
    assert_int_equal(parsed("tuffet:vr=log2:9").keep, 0); /* which keep does not go with */
    assert_int_equal(tft_kv_check("tuffet:vr=log2:9,keep=16", NULL), TFT_ERR_ARG);
    p = parsed("tuffet");
    assert_true(tft_kv_quantizes(&p) && p.k.axis == TFT_KV_MIXED && p.v.axis == TFT_KV_TOKEN);
    assert_true(p.k.retain == TFT_KV_WINDOW && p.k.window == 128 && p.group == 64 &&
                p.clip == TFT_KV_CENTRE && !p.f8);
    assert_true(tft_kv_bits(&p.k, 40) == 2 && tft_kv_bits(&p.v, 40) == 2);
    assert_int_equal(tft_kv_block(&p), 64);
    p = parsed("asymkv");
    assert_true(tft_kv_bits(&p.k, 15) == 2 && tft_kv_bits(&p.k, 16) == 1); /* the first 16 layers */
}

static void checked_without_a_model(void **state)
{
    (void)state;
    struct tft_error err;
    assert_int_equal(tft_kv_check(NULL, &err), TFT_OK);
    assert_int_equal(tft_kv_check("kivi:bits=4", NULL), TFT_OK);
    assert_int_equal(tft_kv_check("kivi:bits=5", &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "bits"));
    assert_int_equal(tft_kv_check("kivi:keep=9", &err), TFT_OK);
}

static void keys_and_values_may_be_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum tft_kv_retain k;
        uint32_t k_window;
        enum tft_kv_retain v;
        uint32_t v_window;
        bool apart;
    } all[] = {
        {"kivi:vr=window:64", FILL, 128, WINDOW, 64, true},
        {"partial-logquant", LOG2, 64, WINDOW, 64, true},
        {"partial-logquant:window=9", LOG2, 9, WINDOW, 9, true},
        {"logquant:kr=fill:7,window=9", FILL, 9, LOG2, 9, true},
        {"kivi:kr=fill:64,vr=fill:65", FILL, 64, FILL, 65, true},
        {"kr=log2:3,vr=window:0", LOG2, 3, WINDOW, 0, true},
        {"kivi:kr=window:3,vr=window:3", WINDOW, 3, WINDOW, 3, false},
        {"kivi:vr=log2:5,retain=window:6", WINDOW, 6, WINDOW, 6, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tft_kv_policy p = parsed(all[i].text);
        if (p.k.retain != all[i].k || p.k.window != all[i].k_window || p.v.retain != all[i].v ||
            p.v.window != all[i].v_window || tft_kv_split(&p) != all[i].apart)
            fail_msg("%s: %d:%u and %d:%u", all[i].text, (int)p.k.retain, p.k.window,
                     (int)p.v.retain, p.v.window);
    }
}

static void floats_have_no_codes(void **state)
{
    (void)state;
    static const char *const f16[] = {NULL, "f16"};
    for (int i = 0; i < 2; i++) {
        struct tft_kv_policy p = parsed(f16[i]);
        assert_false(tft_kv_quantizes(&p));
        assert_int_equal(p.num, TFT_NUM_F16);
    }
    struct tft_kv_policy p = parsed("f32");
    assert_false(tft_kv_quantizes(&p));
    assert_int_equal(p.num, TFT_NUM_F32);
    assert_false(p.i8);
    p = parsed("i8");
    assert_false(tft_kv_quantizes(&p));
    assert_true(p.i8);
}

static void knobs_override(void **state)
{
    (void)state;
    static const struct says all[] = {
        {"kivi:bits=4,window=64", "fill:64 0 32/32 f16 whole C4 T4"},
        {"kivi:window=64", "fill:64 0 32/32 f16 whole C2 T2"},
        {"kivi:group=64,k=3,v=1.5@channel", "fill:128 0 64/64 f16 whole C3 C1.5"},
        {"kivi:k=8@token,v=16", "fill:128 0 32/32 f16 whole T8 T16"},
        {"kivi:k=@token", "fill:128 0 32/32 f16 whole T2 T2"},
        {"kivi:bits=4,bits=1", "fill:128 0 32/32 f16 whole C1 T1"}, /* the last one counts */
        {"logquant:window=42,group=16", "log2:42 0 16/16 f16 whole C2 T2"},
        {"logquant:retain=window:100", "window:100 0 64/64 f16 whole C2 T2"},
        {"asymkv:lk=41,lv=1,high=4,low=1.5", "fill:128 0 32/32 f16 whole C4 T4-1.5"},
        {"kivi:k=4x1/2,v=4", "fill:128 0 32/32 f16 whole C4-2 T4"},
        /* of all layers */
        {"asymkv:bits=2", "fill:128 0 32/32 f16 whole C2 T2"},
        {"skvq:k=2,v=1.5,group=128,window=64,sinks=0", "window:64 0 128/32 f8 calibrated T2 T1.5"},
        {"skvq:scales=f16,clip=none,window=0", "window:0 5 32/32 f16 whole T2 T2"},
        {"skvq:clip=zero,group=64", "window:128 5 64/32 f8 zero T2 T2"},
        {"tuffet:k=4@channel", "window:128 4 64/64 f16 centre C4 T2"},
        {"rtn:window=32768,sinks=32768,group=256", "fill:32768 32768 256/32 f16 whole T2 T2"},
        {"rtn:v=@channel,group=256", "fill:32 0 256/256 f16 whole T2 C2"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_says(&all[i]);

    static const struct says mixed[] = {
        {"tuffet:k=2.25@mixed", "window:128 4 64/64 f16 centre M2.25 T2"},
        {"tuffet:k=3", "window:128 4 64/64 f16 centre M3 T2"},
        {"tuffet:bits=1.5", "window:128 4 64/64 f16 centre M1.5 T1.5"},
        {"kivi:k=@mixed", "fill:128 0 32/32 f16 whole M2 T2"},
        {"kivi:k=1@mixed", "fill:128 0 32/32 f16 whole M1 T2"},
        {"kivi:k=4.000000@mixed", "fill:128 0 32/32 f16 whole M4 T2"},
        {"tuffet:k=4x40/1,v=4", "window:128 4 64/64 f16 centre M4-1 T4"},
    };
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++)
        assert_says(&mixed[i]);
    /* an average for one, levels for the other */
    struct tft_kv_policy p = parsed("tuffet:bits=1.5");
    assert_int_equal(tft_kv_held(&p.k, 0), TFT_BITS_4);
    assert_int_equal(tft_kv_held(&p.v, 0), TFT_BITS_3_LEVELS);
}

/* The bits of layers 0 to 9. */
static void assert_layers(const char *text, const float k[10], const float v[10])
{
    struct tft_kv_policy p = parsed(text);
    for (uint32_t l = 0; l < 10; l++)
        if (tft_kv_bits(&p.k, l) != k[l] || tft_kv_bits(&p.v, l) != v[l])
            fail_msg("%s: layer %u has %g and %g bits", text, l, (double)tft_kv_bits(&p.k, l),
                     (double)tft_kv_bits(&p.v, l));
}

static void bits_by_layer(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float k[10], v[10];
    } all[] = {
        {"tuffet:k=3x4/1.25x2/2.5@mixed,v=2x6/1.5",
         {3, 3, 3, 3, 1.25f, 1.25f, 2.5f, 2.5f, 2.5f, 2.5f},
         {2, 2, 2, 2, 2, 2, 1.5f, 1.5f, 1.5f, 1.5f}},
        {"kivi:bits=16x1/4x1/1", {16, 4, 1, 1, 1, 1, 1, 1, 1, 1}, {16, 4, 1, 1, 1, 1, 1, 1, 1, 1}},
        {"kivi:k=4x0/3x32768/2", {3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
        {"tuffet:k=16x9/4,v=16",
         {16, 16, 16, 16, 16, 16, 16, 16, 16, 4},
         {16, 16, 16, 16, 16, 16, 16, 16, 16, 16}},
        /* AsymKV's knobs are about the first layers and the others, whatever came before */
        {"asymkv:lk=3,lv=1,high=4", {4, 4, 4, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {"asymkv:k=8x1/4x2/3x3/1,lk=5",
         {8, 8, 8, 8, 8, 4, 4, 4, 4, 4},
         {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {"asymkv:k=8x1/4x2/3,high=3,low=2",
         {3, 2, 2, 3, 3, 3, 3, 3, 3, 3},
         {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
        {"asymkv:k=3x2/4", {3, 3, 4, 4, 4, 4, 4, 4, 4, 4}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_layers(all[i].text, all[i].k, all[i].v);

    struct tft_kv_policy p = parsed("tuffet:k=2x1/16,v=1.5x1/8");
    assert_int_equal(tft_kv_held(&p.k, 0), TFT_BITS_4);
    assert_int_equal(tft_kv_held(&p.k, 1), TFT_KV_BITS_F16);
    assert_int_equal(tft_kv_held(&p.v, 0), TFT_BITS_3_LEVELS);
    assert_int_equal(tft_kv_held(&p.v, 1), TFT_BITS_8);

    /* as many runs as there is room for, and one more; a text as long as can be, and longer */
    char text[TFT_KV_TEXT + 1] = "kivi:k=";
    for (int i = 1; i < TFT_KV_RUNS; i++)
        strcat(text, i % 2 ? "1x1/" : "3x1/");
    char *end = text + strlen(text);
    strcpy(end, "4");
    p = parsed(text);
    assert_true(tft_kv_bits(&p.k, TFT_KV_RUNS - 2) == 1 &&
                tft_kv_bits(&p.k, TFT_KV_RUNS - 1) == 4 && tft_kv_bits(&p.k, UINT32_MAX - 1) == 4);
    strcpy(end, "4x1/4");
    assert_int_equal(tft_kv_parse(&p, text, NULL), TFT_ERR_ARG);
    strcpy(end, "4");
    while (strlen(text) + strlen(",bits=2") < TFT_KV_TEXT)
        strcat(text, ",bits=2");
    parsed(text);
    memset(text, '0', TFT_KV_TEXT);
    struct tft_error err;
    assert_int_equal(tft_kv_parse(&p, text, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "2048 bytes of text is too long"));
}

static void knobs_alone(void **state)
{
    (void)state;
    static const struct says all[] = {
        {"bits=4", "fill:128 0 32/32 f16 whole C4 T4"},
        {"k=4@token,v=3@channel,group=64,retain=log2:21", "log2:21 0 64/64 f16 whole T4 C3"},
        {"retain=window:7,sinks=2,scales=f8", "window:7 2 32/32 f8 whole C2 T2"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_says(&all[i]);
}

static void what_is_none_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line; /* a part of it */
    } all[] = {
        {"", "no KV cache is called \"\""},
        {"f8", "\"f8\""},
        {"KIVI", "\"KIVI\""},
        {"kivi ", "\"kivi \""},
        {"kivi,bits=2", "no knob \"kivi\""},
        {"kivy:bits=2", "\"kivy\""},
        {"f16:bits=2", "of f16 has no knobs"},
        {":bits=2", "called \"\""},
        {"kivi:", "no knob \"\""},
        {"kivi:bits=2,", "no knob \"\""},
        {"kivi:,bits=2", "no knob \"\""},
        {"kivi:bits", "bits is 1, 1.5, 2, 3, 4, 8 or 16, or such by layer, 3x4/2, or 0.25..4 with "
                       "@fisher, not \"\""},
        {"kivi:bits=", "not \"\""},
        {"kivi:bits=5", "bits is 1, 1.5, 2, 3, 4, 8 or 16, or such by layer, 3x4/2, or 0.25..4 "
                        "with @fisher, not \"5\""},
        {"kivi:bits=2.5", "not \"2.5\""},
        {"kivi:bits= 2", "not \" 2\""},
        {"kivi:bits=2=2", "not \"2=2\""},
        {"kivi:Bits=2", "no knob \"Bits\""},
        {"kivi:colour=2", "no knob \"colour\""},
        {"kivi:k=2@row", "k is 1, 1.5, 2, 3, 4, 8 or 16, @channel or @token, or 1..4@mixed, or "
                         "such by layer, 3x4/2, or 0.25..4@fisher, not \"2@row\""},
        {"kivi:k=2@", "not \"2@\""},
        {"kivi:k=@", "not \"@\""},
        {"kivi:k=", "not \"\""},
        {"kivi:k=2x4", "not \"2x4\""}, /* and the others? */
        {"kivi:k=2x4/", "not \"2x4/\""},
        {"kivi:k=2x4/2x4", "not \"2x4/2x4\""},
        {"kivi:k=2/2", "not \"2/2\""},
        {"kivi:k=/2", "not \"/2\""},
        {"kivi:k=x4/2", "not \"x4/2\""},
        {"kivi:k=2x/2", "not \"2x/2\""},
        {"kivi:k=2x4x4/2", "not \"2x4x4/2\""},
        {"kivi:k=2x1.5/2", "not \"2x1.5/2\""},
        {"kivi:k=2x32769/2", "not \"2x32769/2\""},
        {"kivi:k=2.5x4/2", "not \"2.5x4/2\""},
        {"kivi:k=2@token/2", "not \"2@token/2\""},
        {"tuffet:k=8x4/2", "not \"8x4/2\""},
        {"tuffet:k=2.25,k=@token", "keys cannot have 2.25 bits"},
        {"kivi:bits=8,k=@mixed", "mixed keys cannot have 8 bits"},
        {"asymkv:lk=4,low=8,k=@mixed", "mixed keys cannot have 8 bits"},
        {"kivi:v=@mixed", "values cannot be mixed"},
        {"kivi:k=0.99@mixed", "not \"0.99@mixed\""},
        {"kivi:k=4.01@mixed", "not \"4.01@mixed\""},
        {"kivi:k=2.@mixed", "not \"2.@mixed\""},
        {"kivi:k=.5@mixed", "not \".5@mixed\""},
        {"kivi:k=2.0000001@mixed", "not \"2.0000001@mixed\""},
        {"kivi:k=2e0@mixed", "not \"2e0@mixed\""},
        {"kivi:k=nan@mixed", "not \"nan@mixed\""},
        {"tuffet:bits=8", "not \"8\""},
        {"kivi:v=2@mixed", "values cannot be mixed"},
        {"fisher:bits=0.24", "not \"0.24\""},
        {"fisher:bits=4.01", "not \"4.01\""},
        {"fisher:bits=8", "not \"8\""},
        {"fisher:k=2", "one number of bits for all layers, keys and values"},
        {"fisher:bits=2x3/1", "one number of bits for all layers, keys and values"},
        {"fisher:k=1.5@mixed", "keys and values are both @fisher, or neither"},
        {"kivi:v=2@fisher", "keys and values are both @fisher, or neither"},
        {"fisher:kr=window:3", "@fisher takes retain, not a different kr and vr"},
        {"fisher:retain=log2:16,keep=0", "@fisher takes retain=fill or window, not log2"},
        {"fisher:scales=f8", "@fisher has no scales, clip or reorder"},
        {"fisher:clip=centre", "@fisher has no scales, clip or reorder"},
        {"fisher:reorder=calibrated", "@fisher has no scales, clip or reorder"},
        {"fisher:bits=8,k=2@channel,v=2@token", "not \"8\""},
        {"bits=8,k=@fisher,v=@fisher", "keys cannot have 8 bits"},
        {"kivi:bits=2@mixed", "values cannot be mixed"},
        {"asymkv:high=0", "high is 1, 1.5, 2, 3, 4, 8 or 16, not \"0\""},
        {"asymkv:low=-1", "low is 1, 1.5, 2, 3, 4, 8 or 16, not \"-1\""},
        {"asymkv:lk=-1", "lk is a number of layers, not \"-1\""},
        {"asymkv:lv=32769", "lv is a number of layers, not \"32769\""},
        {"asymkv:lv=1.5", "not \"1.5\""},
        {"kivi:high=4", "high goes with asymkv: write bits by layer, k=3x4/2 or v=3x4/2"},
        {"lk=3,k=2", "lk goes with asymkv: write bits by layer"},
        {"kivi:residual=64", "residual is window: write window=N"},
        {"asymkv:residual=64", "residual is window: write window=N"},
        {"kivi:group=0", "group is 16, 32, 64, 128 or 256, not \"0\""},
        {"kivi:group=8", "not \"8\""},
        {"kivi:group=48", "not \"48\""},
        {"kivi:group=512", "not \"512\""},
        {"kivi:retain=fill", "retain is fill:N, window:N or log2:N, not \"fill\""},
        {"kivi:retain=fill:", "not \"fill:\""},
        {"kivi:retain=half:2", "not \"half:2\""},
        {"kivi:retain=fill:2:2", "not \"fill:2:2\""},
        {"kivi:kr=half:2", "kr is fill:N, window:N or log2:N, not \"half:2\""},
        {"kivi:vr=window", "vr is fill:N, window:N or log2:N, not \"window\""},
        {"kivi:window=32769", "window is a number of tokens, not \"32769\""},
        {"kivi:window=99999999999999999999", "not \"99999999999999999999\""},
        {"kivi:window=0x10", "window is a number of tokens, not \"0x10\""},
        {"kivi:sinks=32769", "sinks is a number of tokens, not \"32769\""},
        {"kivi:scales=f32", "scales is f16 or f8, not \"f32\""},
        {"kivi:clip=yes", "clip is none, centre, zero or calibrated, not \"yes\""},
        {"kivi:reorder=yes", "reorder is none or calibrated, not \"yes\""},
        {"kivi:reorder=calibrated",
         "reorder=calibrated and clip=calibrated go with keys and values by token"},
        {"rtn:clip=calibrated,v=2@channel", "go with keys and values by token"},
        {"tuffet:clip=calibrated", "go with keys and values by token"},
        {"logquant:keep=3", "keep goes with retain=fill or retain=window"},
        {"kivi:keep=3,vr=log2:9", "keep goes with retain=fill or retain=window"},
        {"kivi:keep=32769", "keep is a number of tokens, not \"32769\""},
        {"kivi:prefill=1048577", "prefill is a number of tokens or prompt, not \"1048577\""},
        {"kivi:window=1", "at least 2 tokens, not 1"},
        {"kivi:vr=log2:1", "at least 2 tokens, not 1"},
        {"logquant:window=0", "at least 2 tokens, not 0"},
        {"kivi:bits=\n2", "not \"?2\""}, /* the line is one */
        {"kivi:0123456789012345678901234567890123456789012345678901234567890123456789=2",
         "no knob \"0123456789012345678901234567890123456789\""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tft_kv_policy p;
        struct tft_error err = {0};
        if (tft_kv_parse(&p, all[i].text, &err) != TFT_ERR_ARG || !strstr(err.msg, all[i].line))
            fail_msg("%s: %d, %s", all[i].text, (int)err.code, err.msg);
        assert_int_equal(tft_kv_parse(&p, all[i].text, NULL), TFT_ERR_ARG);
    }
}

/* Files keep the knobs that were deleted. */
static void a_file_may_have_other_knobs(void **state)
{
    (void)state;
    static const struct {
        const char *stored, *text;
    } all[] = {
        {"kivi:bits=4,residual=64", "kivi:bits=4,window=64"},
        {"residual=9,k=3", "window=9,k=3"},
        {"kivi:bits=4,lk=1", "kivi:k=4x1/2,v=4"},
        {"tuffet:lk=40,lv=2,high=4,low=1", "tuffet:k=4x40/1,v=4x2/1"},
        {"asymkv:residual=32,lk=1", "asymkv:k=2x1/1,v=1,window=32"},
        {"tuffet:k=2.25", "tuffet:k=2.25"},
        {NULL, "f16"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tft_kv_policy file, given = parsed(all[i].text);
        struct tft_error err;
        if (tft_kv_parse_stored(&file, all[i].stored, &err) != TFT_OK)
            fail_msg("%s: %s", all[i].stored, err.msg);
        assert_int_equal(file.k.window, given.k.window);
        assert_int_equal(file.v.window, given.v.window);
        for (uint32_t l = 0; l < 60; l++)
            if (tft_kv_bits(&file.k, l) != tft_kv_bits(&given.k, l) ||
                tft_kv_bits(&file.v, l) != tft_kv_bits(&given.v, l))
                fail_msg("%s: layer %u", all[i].stored, l);
    }
    struct tft_kv_policy p;
    assert_int_equal(tft_kv_parse_stored(&p, "kivi:lk=1.5", NULL), TFT_ERR_ARG);
    assert_int_equal(tft_kv_parse_stored(&p, "kivi:colour=2", NULL), TFT_ERR_ARG);
}

static bool has_sound_window(const struct tft_kv_side *s)
{
    return s->window <= 1 << 15 && (s->retain == WINDOW || s->window >= 2);
}

/* Every accepted policy can run: memory and loops go by these numbers. */
static void assert_sound(const char *text, const struct tft_kv_policy *p)
{
    uint32_t block = tft_kv_block(p);
    unsigned k[2] = {tft_kv_held(&p->k, 0), tft_kv_held(&p->k, 1000)},
             v[2] = {tft_kv_held(&p->v, 0), tft_kv_held(&p->v, 1000)};
    bool sound = block >= 16 && block <= TFT_CODED_SPAN && TFT_CODED_SPAN % block == 0 &&
                 p->group >= 16 && p->group <= 256 && p->sinks <= 1 << 15 &&
                 p->v.axis != TFT_KV_MIXED && has_sound_window(&p->k) && has_sound_window(&p->v) &&
                 k[0] <= TFT_KV_BITS_F16 && k[1] <= TFT_KV_BITS_F16 && v[0] <= TFT_KV_BITS_F16 &&
                 v[1] <= TFT_KV_BITS_F16;
    for (uint32_t l = 0; l < 40; l++) {
        float bits = tft_kv_bits(&p->k, l);
        sound = sound && (p->k.axis != TFT_KV_MIXED || bits == 16 || (bits >= 1 && bits <= 4)) &&
                (p->k.axis != TFT_KV_FISHER ||
                 (p->v.axis == TFT_KV_FISHER && p->k.retain != LOG2 && bits >= 0.25f && bits <= 4 &&
                  !tft_kv_split(p) && tft_kv_bits(&p->v, l) == bits));
    }
    bool log2 = p->k.retain == LOG2 || p->v.retain == LOG2;
    sound = sound && (p->prefill <= 1 << 20 || p->prefill == TFT_KV_PROMPT) &&
            p->keep <= (log2 ? 0 : 1 << 15) &&
            ((p->clip != TFT_KV_CALIBRATED && !p->reorder) ||
             (p->k.axis == TFT_KV_TOKEN && p->v.axis == TFT_KV_TOKEN));
    if (!sound)
        fail_msg("\"%s\" was taken", text);
}

static void any_bytes_are_a_cache_or_refused(void **state)
{
    (void)state;
    static const char *const from[] = {"kivi:bits=4,window=64,prefill=99,keep=3",
                                       "skvq:k=2,v=1.5,group=64,sinks=5,scales=f8,clip=calibrated",
                                       "tuffet:k=2.25@mixed,v=2@token,group=16",
                                       "kivi:kr=fill:64,vr=window:7,sinks=2",
                                       "k=4@token,v=3@channel,retain=log2:21",
                                       "asymkv:lk=16,lv=0,high=2,low=1",
                                       "tuffet:k=3x4/1.25x2/2.5,v=2x6/1.5",
                                       "logquant:retain=window:0,clip=centre",
                                       "fisher:bits=1.25,window=9,sinks=0",
                                       "rtn"};
    static const char *const pieces[] = {"@mixed",  "@token", "k=",     "v=", "bits=", ":",
                                         ",",       "=",      "@",      "0",  "16",    "1.5",
                                         "retain=", "log2:",  "group=", "x",  "/"};
    unsigned taken = 0;
    for (int i = 0; i < 20000; i++) {
        char text[200];
        strcpy(text, from[random_u32() % (sizeof from / sizeof *from)]);
        for (uint32_t n = 1 + random_u32() % 3; n; n--) {
            size_t length = strlen(text), at = random_u32() % (length + 1);
            const char *piece = pieces[random_u32() % (sizeof pieces / sizeof *pieces)];
            switch (random_u32() % 4) {
            case 0: text[at] = (char)random_u32(); text[length + 1 - (at < length)] = 0; break;
            case 1: text[at] = 0; break;
            case 2: memmove(text, text + at, length - at + 1); break;
            default:
                memmove(text + at + strlen(piece), text + at, length - at + 1);
                memcpy(text + at, piece, strlen(piece));
            }
        }
        char *exact = (char *)exact_copy(text, strlen(text) + 1);
        struct tft_kv_policy p;
        struct tft_error err = {0};
        if (tft_kv_parse(&p, exact, &err) == TFT_OK) {
            taken++;
            assert_sound(text, &p);
        } else if (err.code != TFT_ERR_ARG || !err.msg[0] || strchr(err.msg, '\n')) {
            fail_msg("\"%s\": %s", text, err.msg);
        }
        tft_port_free(exact);
    }
    assert_in_range(taken, 500, 19500);
}

/* A file's calibration serves the first caches, and not the second. */
static void what_a_calibration_serves(void **state)
{
    (void)state;
    static const struct {
        const char *file, *kv;
        bool serves;
    } all[] = {
        {"skvq", "skvq", true},
        {"skvq", "skvq:window=3,sinks=0,scales=f16,prefill=9,retain=log2:9", true},
        {"skvq", "skvq:clip=zero,k=1,v=3", true},
        {"skvq", "skvq:v=16", true},
        {"skvq", "skvq:v=1.5", false},
        {"skvq", "skvq:k=3", false},
        {"skvq", "skvq:group=64", false},
        {"skvq", "skvq:group=64,clip=none", false},
        {"skvq", "skvq:reorder=none", false}, /* of other channels */
        {"skvq:reorder=none", "skvq", false},
        {"skvq:reorder=none", "skvq:reorder=none", true},
        {"skvq:clip=zero", "skvq:clip=centre", true},
        {"skvq:clip=zero", "skvq", false},
        {"skvq:bits=2x3/4", "skvq", true},  /* of a model of three layers */
        {"skvq:bits=2x2/4", "skvq", false},
        {"rtn", "rtn:reorder=calibrated", false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tft_kv_policy file = parsed(all[i].file), kv = parsed(all[i].kv);
        if (tft_kv_calibrated_for(&file, &kv, 3) != all[i].serves)
            fail_msg("%s of a file with %s", all[i].kv, all[i].file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_are_what_tuffet_h_says),
        cmocka_unit_test(checked_without_a_model),
        cmocka_unit_test(keys_and_values_may_be_apart),
        cmocka_unit_test(floats_have_no_codes),
        cmocka_unit_test(knobs_override),
        cmocka_unit_test(bits_by_layer),
        cmocka_unit_test(knobs_alone),
        cmocka_unit_test(what_is_none_is_refused_by_name),
        cmocka_unit_test(a_file_may_have_other_knobs),
        cmocka_unit_test(what_a_calibration_serves),
        cmocka_unit_test(any_bytes_are_a_cache_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
