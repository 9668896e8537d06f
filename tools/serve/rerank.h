/* Scores of documents for a query: /rerank, /v1/rerank and /v2/rerank, in the shapes of Jina and
   Cohere (`documents`), and of text-embeddings-inference (`texts`). */
#ifndef SERVE_RERANK_H
#define SERVE_RERANK_H

#include "server.h"

void rerank(struct exchange *x);

#endif
