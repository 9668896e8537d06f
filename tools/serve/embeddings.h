/* Embeddings: OpenAI's /v1/embeddings, llama.cpp's /embedding, Ollama's /api/embed and
   /api/embeddings. */
#ifndef SERVE_EMBEDDINGS_H
#define SERVE_EMBEDDINGS_H

#include "server.h"

void openai_embeddings(struct exchange *x);
void native_embedding(struct exchange *x);
void ollama_embed(struct exchange *x);
void ollama_embeddings(struct exchange *x);

#endif
