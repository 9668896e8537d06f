/*
 * The expressions of each pre-tokenizer's name. Several expressions are stages, as in a Sequence of
 * Hugging Face's pre-tokenizers: the matches of the first stage, and the text between matches, are
 * pieces; the next stage splits each piece further, and so on. For \s+(?!\S), the end of the piece
 * is the end of the text.
 */
#include "pretokenize.h"

#include <string.h>

#include "expression.h"

#define DIGITS(n) {.match = tft_match_digits, .digits = n}
#define WORDS(l, n, after, together)                                                               \
    {.match = tft_match_llama3, .letters = l, .digits = n, .after_marks = after,                   \
     .no_contractions = together}
#define LLAMA3(n) WORDS(TFT_LETTERS, n, "\r\n", false)
#define STAGES static const struct tft_piece_stage

STAGES gpt2[] = {{.match = tft_match_gpt2}};
STAGES gpt2_digits[] = {DIGITS(1), {.match = tft_match_gpt2}};
STAGES llama3[] = {LLAMA3(3)};
STAGES minicpm5[] = {DIGITS(3), LLAMA3(0)};
STAGES qwen2[] = {LLAMA3(1)};
STAGES qwen35[] = {WORDS(TFT_LETTERS | TFT_MARKS, 1, "\r\n", false)};
STAGES ufakzeka[] = {WORDS(TFT_LETTERS, 1, "\r\n", true)};
STAGES seed_coder[] = {WORDS(TFT_LETTERS, 1, "", false)};
STAGES laguna[] = {{.match = tft_match_line}, LLAMA3(1)};
STAGES exaone_moe[] = {{.match = tft_match_phrase, .letters = TFT_LETTERS, .digits = 1,
                        .after_marks = "\r\n/", .after_once = true}};
STAGES tekken[] = {{.match = tft_match_case, .digits = 1, .no_contractions = true}};
STAGES gpt4o[] = {{.match = tft_match_case, .digits = 3}};
STAGES bloom[] = {{.match = tft_match_bloom}};
STAGES viking[] = {{.match = tft_match_bloom}, DIGITS(1)};
STAGES falcon[] = {{.match = tft_match_falcon}, {.match = tft_match_gpt2},
                   {.match = tft_match_3_digits}};
STAGES falcon_digits[] = {{.match = tft_match_falcon}, {.match = tft_match_gpt2}, DIGITS(0),
                          {.match = tft_match_3_digits}};
STAGES deepseek_llm[] = {{.match = tft_match_newline}, {.match = tft_match_latin},
                         {.match = tft_match_marks},   {.match = NULL}, /* \s+$ */
                         {.match = tft_match_cjk},     DIGITS(0)};
STAGES deepseek_coder[] = {{.match = tft_match_newline},
                           {.match = tft_match_space_word, .letters = TFT_LETTERS},
                           {.match = tft_match_space_word, .letters = TFT_PUNCTUATION},
                           {.match = tft_match_cjk}, DIGITS(1)};
STAGES gemma4[] = {{.match = tft_match_line}};
STAGES deepseek3[] = {DIGITS(3), {.match = tft_match_cjk3}, {.match = tft_match_deepseek3}};

/* By llama.cpp's names (llama-vocab.cpp, load). "default", in files older than the names, means
   GPT-2. */
static const struct {
    const char *names; /* with a space after each */
    struct tft_pretokenizer rules;
} known[] = {
#define RULES(s) .stage = s, .n_stage = sizeof(s) / sizeof *(s)
    {"gpt-2 gpt2 default mpt olmo phi-2 jais trillion granite-docling exaone4 gigachat a.x-4.0 "
     "mellum modern-bert jina-es jina-de jina-v2-es jina-v2-de ",
     {RULES(gpt2)}},
    {"jina-v1-en jina-v2-code roberta-bpe ", {RULES(gpt2), .add_sep = true}},
    {"refact starcoder command-r smollm codeshell exaone minerva-7b mellum2 ",
     {RULES(gpt2_digits)}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     {RULES(llama3), .whole_pieces = true, .add_bos = true}},
    {"smaug-bpe dbrx glm4 chatglm-bpe ", {RULES(llama3)}},
    {"minicpm5 ", {RULES(minicpm5), .whole_pieces = true}},
    {"qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo f2llmv2 solar-open grok-2 bailingmoe "
     "bailingmoe2 llada-moe ",
     {RULES(qwen2)}},
    {"qwen35 ", {RULES(qwen35)}},
    {"ufakzeka ", {RULES(ufakzeka)}},
    {"seed-coder ", {RULES(seed_coder)}},
    {"laguna ", {RULES(laguna)}},
    {"exaone-moe ", {RULES(exaone_moe)}},
    {"tekken ", {RULES(tekken), .whole_pieces = true, .add_bos = true}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2 ", {RULES(gpt4o)}},
    {"granite-embed-multi-97m ", {RULES(gpt4o), .whole_pieces = true}},
    {"bloom poro-chat gpt3-finnish ", {RULES(bloom)}},
    {"viking ", {RULES(viking)}},
    {"falcon ", {RULES(falcon)}},
    {"falcon-digits ", {RULES(falcon_digits)}}, /* as Falcon's own files; tuffet's name */
    {"deepseek-llm ", {RULES(deepseek_llm)}},
    {"deepseek-coder ", {RULES(deepseek_coder)}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4 ", {RULES(deepseek3)}},
    {"gemma4 granite-embed-multi-311m ", {RULES(gemma4), .characters = true, .add_bos = true}},
    {"sarvam-moe ", {RULES(gemma4), .characters = true}},
};

const char tft_pretokenize_known[] =
    "gpt-2 refact llama-bpe smaug-bpe qwen2 qwen35 tekken gpt-4o deepseek-llm deepseek-coder "
    "deepseek-v3 falcon bloom exaone-moe gemma4";

static bool has_name(const char *names, struct tft_str name)
{
    for (const char *end; (end = strchr(names, ' ')); names = end + 1)
        if ((size_t)(end - names) == name.n && !memcmp(names, name.p, name.n))
            return true;
    return false;
}

bool tft_pretokenize_find(struct tft_str name, struct tft_pretokenizer *out)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (has_name(known[i].names, name)) {
            *out = known[i].rules;
            return true;
        }
    return false;
}

void tft_pieces_start(struct tft_pieces *s, const struct tft_pretokenizer *rules, const char *text,
                      size_t n)
{
    s->rules = rules;
    s->p = text;
    s->end[0] = text + n;
    for (unsigned i = 0; i < rules->n_stage; i++)
        s->end[i + 1] = text;
}

/* The parts are nested: the last stages' parts end here, so the last stages cut anew. */
size_t tft_pieces_next(struct tft_pieces *s, const char **p)
{
    unsigned n = s->rules->n_stage, i = 0;
    *p = s->p;
    if (s->p == s->end[0])
        return 0;
    while (i < n && s->end[i + 1] != s->p)
        i++;
    for (; i < n; i++)
        s->end[i + 1] = tft_stage_cut(&s->rules->stage[i], tft_look(s->p, s->end[i]));
    s->p = s->end[n];
    return (size_t)(s->p - *p);
}
