/*
 * The teacher tells stories.
 *
 * teach-sample mass   TEACHER TOKENIZER PROMPTS OUT TOKENS SEED
 *     Samples TOKENS tokens. OUT: a line "token mass" for each token of the teacher, where mass is
 *     its probability, averaged over all places.
 *
 * teach-sample corpus TEACHER TOKENIZER PROMPTS OUT STORIES SEED STUDENT-TOKENIZER MASS
 *     Samples STORIES stories. OUT: a struct target for each token of the student, story after
 *     story, each from BOS to EOS: the token, and what the teacher predicted in its place.
 */
#include "checkpoint.h"
#include "decode.h"
#include "project.h"
#include "prompts.h"
#include "spm.h"
#include "tool.h"

#include <stdlib.h>

enum {
    SEQUENCES = 128,    /* stories that are sampled at once */
    LONGEST = 600,      /* most tokens of the teacher in a story, which is cut there */
    MAX_RECORDS = 4096, /* most tokens of the student in a story */
    PROMPTED = 40,      /* percent of the stories that start with a prompt */
    BLANK_LINES = 20, /* percent of the stories whose paragraphs are separated by a blank line; the
                         teacher writes none */
    PROMPT_BYTES = 256,
};
/* a temperature per story: low ones show what greedy decoding meets, high ones give variety */
static const float coolest = 0.7f, warmest = 1.1f;
static const float min_p = 0.02f;      /* tokens less likely than this, relative to the most likely,
                                          are not sampled */
static const double rare = 1e-7;       /* tokens of the teacher below this mass are left out */

struct sequence {
    float temperature;
    bool blank_lines;
    uint16_t story[LONGEST + PROMPT_BYTES]; /* teacher's tokens */
    int n, told;  /* tokens in story; tokens whose targets have been recorded */
    int fed, pos; /* the next token to feed, and its position */
    struct target *record; /* [MAX_RECORDS] */
    int n_records;
};

struct sampler {
    struct shape shape;
    struct spm teacher, student;
    struct projection projection;
    struct decoder *decoder;
    struct prompts *prompts;
    struct sequence sequence[SEQUENCES];
    int *token, n_tokens; /* the teacher's tokens that have logits */
    float *probability;   /* [n_tokens] */
    double *mass;         /* [n_tokens]; NULL in a corpus */
    FILE *out;
    const char *path;
    uint64_t random;
    size_t goal;               /* tokens of `mass`, stories of `corpus` */
    size_t done, stories, cut; /* tokens, stories, stories that were cut */
};

static bool finished(const struct sampler *s)
{
    return (s->mass ? s->done : s->stories) >= s->goal;
}

static void start_story(struct sampler *s, struct sequence *sequence)
{
    sequence->temperature = coolest + (warmest - coolest) * random_unit(&s->random);
    sequence->blank_lines = random_below(&s->random, 100) < BLANK_LINES;
    sequence->story[0] = ID_BOS;
    sequence->n = sequence->told = 1;
    sequence->fed = sequence->pos = 0;
    if (random_below(&s->random, 100) < PROMPTED) {
        char prompt[PROMPT_BYTES] = " ";
        int len = 1 + prompts_draw(s->prompts, &s->random, prompt + 1, PROMPT_BYTES - 1);
        sequence->n += spm_encode(&s->teacher, prompt, len, sequence->story + 1, NULL);
    }
    if (!s->mass) {
        memset(&sequence->record[0], 0, sizeof sequence->record[0]);
        sequence->record[0].token = ID_BOS;
        sequence->n_records = 1;
    }
}

static void end_story(struct sampler *s, struct sequence *sequence)
{
    if (!s->mass && !finished(s))
        write_all(s->out, sequence->record, (size_t)sequence->n_records * sizeof *sequence->record,
                  s->path);
    s->stories++;
    start_story(s, sequence);
}

static void softmax(float *y, const float *z, int n)
{
    float max = z[0], sum = 0;
#pragma omp simd reduction(max : max)
    for (int i = 0; i < n; i++)
        max = max > z[i] ? max : z[i];
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) {
        y[i] = fast_exp(z[i] - max);
        sum += y[i];
    }
    for (int i = 0; i < n; i++)
        y[i] /= sum;
}

/* Draws an index of p[n]. */
static int draw(const float *p, int n, float temperature, uint64_t *random)
{
    int candidate[1024], k = 0; /* at most 1 / min_p of them */
    float weight[1024], max = 0, sum = 0;
#pragma omp simd reduction(max : max)
    for (int i = 0; i < n; i++)
        max = max > p[i] ? max : p[i];
    for (int i = 0; i < n && k < 1024; i++)
        if (p[i] >= min_p * max) {
            candidate[k] = i;
            sum += weight[k++] = powf(p[i] / max, 1 / temperature);
        }
    float left = random_unit(random) * sum;
    int i = 0;
    while (i < k - 1 && left >= weight[i])
        left -= weight[i++];
    return candidate[i];
}

static void record(struct sampler *s, struct sequence *sequence, int token)
{
    struct projection *p = &s->projection;
    struct target *t = &sequence->record[sequence->n_records];
    const uint16_t *piece = p->pieces + p->first[token];
    int n = p->first[token + 1] - p->first[token];
    if (sequence->n_records + n + 1 > MAX_RECORDS)
        die("a story has more than %d tokens of the student", MAX_RECORDS);
    projection_target(p, s->probability, s->token, s->n_tokens, t);
    t->token = piece[0];
    for (int i = 1; i < n; i++)
        t[i] = sure_target(piece[i]);
    sequence->n_records += n;
    if (sequence->blank_lines && token == ID_BYTE + '\n')
        sequence->record[sequence->n_records++] = sure_target((uint16_t)token);
}

/* Takes the logits of story[fed], which is known if it is in the prompt, and is drawn otherwise. */
static void tell(struct sampler *s, struct sequence *sequence, const float *logits)
{
    softmax(s->probability, logits, s->n_tokens);
    if (s->mass)
        for (int i = 0; i < s->n_tokens; i++)
            s->mass[i] += (double)s->probability[i];
    if (sequence->fed == sequence->n)
        sequence->story[sequence->n++] =
            (uint16_t)
                s->token[draw(s->probability, s->n_tokens, sequence->temperature, &s->random)];
    int token = sequence->story[sequence->told++];
    if (!s->mass)
        record(s, sequence, token);
    s->done++;
    if (token == ID_BOS || token == ID_EOS)
        end_story(s, sequence);
    else if (sequence->n >= LONGEST) {
        s->cut++;
        end_story(s, sequence);
    }
}

static void advance(struct sampler *s, struct sequence *sequence, const float *logits)
{
    sequence->fed++;
    sequence->pos++;
    if (sequence->fed == sequence->told)
        tell(s, sequence, logits);
    /* Continues with the newer half of the story as context: the teacher learned from such
       windows. */
    if (sequence->pos == s->shape.context) {
        sequence->fed -= s->shape.context / 2;
        sequence->pos = 0;
    }
}

static void run(struct sampler *s)
{
    uint16_t token[SEQUENCES];
    int pos[SEQUENCES];
    double start = seconds(), reported = start;
    for (int i = 0; i < SEQUENCES; i++) {
        s->sequence[i].record = take(MAX_RECORDS, sizeof *s->sequence[i].record);
        start_story(s, &s->sequence[i]);
    }
    while (!finished(s)) {
        for (int i = 0; i < SEQUENCES; i++) {
            token[i] = s->sequence[i].story[s->sequence[i].fed];
            pos[i] = s->sequence[i].pos;
        }
        const float *logits = decoder_step(s->decoder, token, pos);
        for (int i = 0; i < SEQUENCES; i++)
            advance(s, &s->sequence[i], logits + (size_t)i * (size_t)s->n_tokens);
        double now = seconds();
        if (now - reported > 30 || finished(s)) {
            fprintf(stderr, "%zu tokens, %zu stories, %zu cut, %.0f tokens/s\n", s->done,
                    s->stories, s->cut, (double)s->done / (now - start));
            reported = now;
        }
    }
}

static void all_tokens(struct sampler *s)
{
    s->n_tokens = s->shape.vocab;
    for (int i = 0; i < s->n_tokens; i++)
        s->token[i] = i;
    s->mass = take((size_t)s->n_tokens, sizeof *s->mass);
}

static void common_tokens(struct sampler *s, const char *path)
{
    FILE *f = open_file(path, "r");
    int token;
    double mass, left_out = 0;
    while (fscanf(f, "%d %lf", &token, &mass) == 2) {
        if (mass >= rare || token == ID_BOS)
            s->token[s->n_tokens++] = token;
        else
            left_out += mass;
    }
    fclose(f);
    decoder_narrow_head(s->decoder, s->token, s->n_tokens);
    fprintf(stderr, "%d tokens of the teacher, %.2g of its mass left out\n", s->n_tokens, left_out);
}

static void write_mass(const struct sampler *s)
{
    for (int i = 0; i < s->n_tokens; i++)
        fprintf(s->out, "%d %.4g\n", i, s->mass[i] / (double)s->done);
}

int main(int argc, char **argv)
{
    bool corpus = argc == 10 && !strcmp(argv[1], "corpus");
    if (!corpus && !(argc == 8 && !strcmp(argv[1], "mass")))
        die("usage: teach-sample mass   TEACHER TOKENIZER PROMPTS OUT TOKENS SEED\n"
            "       teach-sample corpus TEACHER TOKENIZER PROMPTS OUT STORIES SEED "
            "STUDENT-TOKENIZER MASS");
    struct sampler *s = take(1, sizeof *s);
    float *flat = checkpoint_read(&s->shape, argv[2]);
    struct params w = params_at(&s->shape, flat);
    spm_read(&s->teacher, argv[3]);
    if (s->teacher.n != s->shape.vocab)
        die("%s: has %d pieces, but the checkpoint has %d", argv[3], s->teacher.n, s->shape.vocab);
    s->prompts = prompts_read(argv[4]);
    s->path = argv[5];
    s->out = open_file(s->path, "wb");
    s->goal = strtoull(argv[6], NULL, 10);
    s->random = strtoull(argv[7], NULL, 10);
    s->decoder = decoder_open(&s->shape, &w, SEQUENCES);
    s->token = take((size_t)s->shape.vocab, sizeof *s->token);
    s->probability = take((size_t)s->shape.vocab, sizeof *s->probability);
    if (corpus) {
        spm_read(&s->student, argv[8]);
        projection_open(&s->projection, &s->teacher, &s->student);
        common_tokens(s, argv[9]);
    } else {
        all_tokens(s);
    }
    run(s);
    if (!corpus)
        write_mass(s);
    if (fclose(s->out))
        die("%s: cannot be written", s->path);
    return 0;
}
