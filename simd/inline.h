/* Small functions that a CUDA compiler is to have on both sides. */
#ifndef TFT_INLINE_H
#define TFT_INLINE_H

#if defined __CUDACC__
#define TFT_INLINE static inline __host__ __device__
#else
#define TFT_INLINE static inline
#endif

#endif
