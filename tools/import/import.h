/*
 * Converts a folder of Hugging Face to a GGUF file: names of numbers and of tensors, and the layout
 * of tensors, become GGUF's. The tables in archs.c have the rules.
 */
#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H

#include "opts.h"
#include "tuffet.h"

/* Writes the file `path`, which replaces an existing file when it is complete. A few rows of a
   tensor are in memory at a time; the folder's files are mapped. */
enum tft_status import_model(const char *folder, const char *path, const struct import_opts *o,
                             struct import_result *r, struct tft_error *err);

/* The same, but the file has no name yet: *temp, for tft_new_file_end. NULL after a failure, and
   if the import was stopped. */
struct tft_new_file;
enum tft_status import_temp(const char *folder, const char *path, const struct import_opts *o,
                             struct import_result *r, struct tft_new_file **temp,
                             struct tft_error *err);

/*
 * Converts a LoRA adapter of PEFT to a GGUF file of llama.cpp's form. PEFT's folder has
 * adapter_config.json and adapter_model.safetensors. Weights get the names and the order of rows
 * that the import gives the base model's. base: a GGUF file of the base model, which says the
 * architecture and the shapes.
 */
enum tft_status import_adapter(const char *folder, const char *base, const char *path,
                               const struct import_opts *o, struct import_result *r,
                               struct tft_error *err);

#endif
