// Annotations for Clang's thread-safety analysis (-Wthread-safety): which mutex guards a member,
// and which mutex a function needs. .ci/check clang-tidy runs the analysis; other compilers ignore
// it.
#pragma once

#if defined(__clang__)
#define THREAD_ANNOTATION(x) __attribute__((x))
#else
#define THREAD_ANNOTATION(x)
#endif

// A class that is a mutex, and a class whose objects hold a mutex as long as they exist.
#define CAPABILITY(name) THREAD_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY THREAD_ANNOTATION(scoped_lockable)
// A member that is read and written only with the mutex.
#define GUARDED_BY(mutex) THREAD_ANNOTATION(guarded_by(mutex))
// A function that is called with the mutex (REQUIRES) or without it (EXCLUDES), that takes it
// (ACQUIRE, TRY_ACQUIRE), or that releases it.
#define REQUIRES(...) THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(result) THREAD_ANNOTATION(try_acquire_capability(result))
#define RELEASE(...) THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// A function that the analysis skips. A comment at the function says why it is right.
#define NO_THREAD_SAFETY_ANALYSIS THREAD_ANNOTATION(no_thread_safety_analysis)
