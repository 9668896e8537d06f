/*
 * Makes a W8A8 model from a float model: int8 weights, and a scale and zero-point for the input of
 * every linear layer, fixed from calibration text (CushionCache, section 3). This library does the
 * work of tuffet quantize.
 *
 * The life of a run:
 *
 *   open      the float model, with its weights unexpanded            tft_model_open_unexpanded
 *   merge     adapters with the float model (--lora), in a copy      write/merge.h
 *   look      for outlier tokens of the text; the prefix gets tokens like them, and its keys and
 *             values, before every sequence, take the outliers     search/pivots.h
 *   search    for a cushion (--cushion): for such tokens in the whole vocabulary
 *                                                                   search/cushion_search.h
 *   measure   run the text through each layer, watch its inputs     quantize(), measure/
 *   round     smooth or scale, rotate and reorder the layer's weights, then
 *             round them to int8, or to fewer bits (--bits)         quantize(), round/
 *   write     the layer to the GGUF file                            quantize(), write/
 *   tune      the prefix of the written model (--tune, --calibrate) tune/tune.h
 *   again     measure, round and write, with the text after the tuned prefix, if weights have 8
 *             bits: its ranges differ                  quantize() with quantize_opts.rows_k
 *   name      prefixes for system messages (--intact-system)        named_rows.h
 *   choose    bits per layer of the KV cache (--kv-search)          search/kv_search.h
 *   rewrite   the file with the tuned prefix, the named ones or the chosen cache
 *                                                                   write/rewrite_model.h
 *   check     the file's loss on held-out text                      check.h
 *
 * With --bits-search, a file of 8 bits is made and searched first (search/bits_search.h).
 *
 * quantize() visits each layer once, with the whole text:
 *
 *      x = embed(text)
 *      for each layer:   expand its weights to f32; x = layer(x), counting the inputs of linear
 *                        layers; choose scales; fold, rotate, round and write the weights
 *
 * If weights get fewer than 8 bits, their rounding needs the moments of the layer's inputs, and
 * later layers should meet the errors of earlier ones, as they will at run time (GPTQ):
 *
 *      for each layer:   expand its weights; run the layer, counting the inputs of linear layers,
 *                        but keep x; fold, rotate, round and write the weights;
 *                        x = rounded layer(x), counting again for the ranges
 *
 * GPTQ's rounding also runs the float model's stream through each layer: before they are rounded,
 * weights make up for part of the difference between their inputs and those after rounded weights,
 * and of the residual stream's, if they add to it (round/correct.h). Both streams run once for each
 * input, and the matrices of this input are rounded before the next one is measured:
 *
 *      for attn_q, attn_output, ffn_gate, ffn_down:   run the layer as it is so far, and with its
 *                        float weights; round the matrices that read this input
 *
 * So memory holds the weights of one layer, twice with GPTQ, x, and the statistics of one layer. If
 * the residual stream is rotated, x and the expanded weights are rotated first, and all later steps
 * see a model with the same outputs.
 *
 * Files:
 *
 *   inputs.h                  names of matrices; names and results of inputs of linear layers
 *   fold.h                    transforms of inputs, folded into a layer's matrices
 *   options.h                 struct quantize_opts
 *   windows.h                 windows of the text
 *   named_rows.h              keys and values of named prefixes
 *   check.h                   loss on held-out text, of the float model and of a file
 *   round/                    arithmetic on weights and numbers; knows no model
 *     affine.h                scale and zero-point of a range
 *     pack.h                  weights to int8 panels
 *     feedback.h              GPTQ: rounds groups of weights with the errors of others
 *     low_bits.h              weights to 2, 3 or 4 bits
 *     grid.h                  weights to blocks of ggml's types
 *     correct.h               weights that make up for the errors of earlier layers
 *     metric.h                cost of errors of weights
 *     prefix_pack.h           the prefix to F16, Q8_0 or Q4_1
 *     awq.h                   AWQ factors
 *     smooth.h                SmoothQuant factors
 *     rotate.h                Hadamard rotation of attention's output and of ffn_down's input
 *     rotate_residual.h       rotation of the residual stream
 *     channel_order.h         order of a head's channels in the KV cache
 *   measure/                  statistics of the calibration text
 *     layers.h                runs the float model a layer at a time
 *     shared_kv.h             keys and values that several layers use
 *     histogram.h             numbers of one input, and their best range
 *     moments.h               second moments of a layer's inputs
 *     input_stats.h           histograms of all inputs of the layer that runs
 *     worst_inputs.h          report of the inputs that lose most
 *     text_loss.h             -ln p of the text
 *     divergence.h            how far a change moves the predictions
 *     key_importance.h        cost of an error in each channel of the keys
 *     importance.h            that of each column of the matrices
 *     kv_calibrate.h          channel order and clip of the file's KV cache
 *     kv_clip.h               SKVQ's clip alpha
 *   search/
 *     pivots.h                prefixes that take the text's own outliers
 *     sequences.h             short texts after a prefix, and their loss to 8 bits
 *     cushion.h               the result of a search for a cushion
 *     cushion_search.h        the search: CushionCache, algorithm 1
 *     cushion_checkpoint.h    its state in a file, to resume from
 *     bits_search.h           bits of each matrix of the layers
 *     kv_search.h             bits of each layer's keys and values in the KV cache
 *     knapsack.h              the exact optimum within a budget of bytes
 *     fisher_bits.h           bits of the KV cache fisher within a budget
 *   tune/                     training of the prefix
 *     tune.h                  the training loop
 *     kv_fisher.h             what an error costs in each channel of the KV cache
 *     sequence_loss.h         loss of one sequence, and its gradient
 *     block.h                 a transformer block and the head, forward and back
 *     attention.h, matmul.h, row_ops.h, real.h     their parts
 *   write/
 *     merge.h                 a copy of the float model with adapters in it
 *     write_model.h           the file that quantize() makes
 *     plain.h                 a plain GGUF file
 *     rewrite_model.h         a copy of it with another prefix, named ones, or another KV cache
 *     held_out.h              the check's result, into the finished file
 *   convert/                  the layers, one after another
 *     conversion.h            the state of all this
 *     convert.h               a layer from loading to leaving
 *     runs.h                  runs of the text through it
 *     factors.h               factors of SmoothQuant and AWQ
 *     few_bits.h              rounding to fewer than 8 bits
 *   blocks/                   plain GGUF files (--gguf)
 *     blocks.h, fit.h         floats to blocks of ggml's types
 *     mix.h                   the type of each tensor
 *   quantize.h                quantize(): measure, round and write (quantize.c); which models can
 *                             be (fits.c); quantize_to_blocks() for plain files (to_blocks.c)
 *   job/                      the steps of a run, each with its options
 *     job.h                   options, callbacks and the error, which all steps share
 *     open.h                  the float model, of a file or a folder
 *     merge.h                 its adapters
 *     made.h                  the new model: a temporary file without a name
 *     format.h                its chat template
 *     text.h                  calibration text and held-out text
 *     prefix.h, system.h      tokens of the prefix; prefixes of system messages
 *     check.h, ranges.h       held-out text: trials, and the choice of ranges
 *     vectors.h               the same for an encoder, by its vectors
 *     bits.h, kv.h, tune.h    searches of bits and of the cache; training
 *     fisher.h                calibration of the cache fisher
 *     plain.h                 a plain GGUF file in place of all this
 *   run.h                     a run: all steps in order, and their results
 *   plan.h                    what a run takes
 *   report.h, sink.h          its results, as lines and as JSON
 *   tuffet_quantize.h         the public functions (library.c)
 *
 * docs/file-format.md describes the file, docs/cache.md the KV cache.
 */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H

#include "file/file.h"
#include "tools/quantize/inputs.h"
#include "tools/quantize/options.h"

/* Fails if m cannot be converted with these options. Call it before a search that takes minutes. */
enum tft_status quantize_check(const struct tft_model *m, const struct quantize_opts *o,
                               struct tft_error *err);

/* Converts m and writes the result to `path`. m: opened by tft_model_open_unexpanded; unchanged on
   return. result: [inputs]. On failure no file is left, and err has the reason. TFT_OK without a
   file if *stopped, which o->progress requests. */
enum tft_status quantize(struct tft_model *m, const char *path, const struct quantize_opts *o,
                         struct quantize_input *result, bool *stopped, struct tft_error *err);

/* The same, but the file has no name yet: *temp, to be read as (*temp)->temp.name, and for
   tft_new_file_end. NULL after a failure, and if *stopped. */
enum tft_status quantize_temp(struct tft_model *m, const char *path, const struct quantize_opts *o,
                              struct quantize_input *result, struct tft_new_file **temp,
                              bool *stopped, struct tft_error *err);

/* Rounds matrices of the layers with feedback, for a plain GGUF file: fills o->blocks, in which
   every pointer of a tensor is NULL before. o: text, without a prefix, a rotation or a cache. Where
   a matrix is not all of its tensor, or differs from its numbers, it is left out. */
enum tft_status quantize_to_blocks(struct tft_model *m, const struct quantize_opts *o,
                                   bool *stopped, struct tft_error *err);

#endif
