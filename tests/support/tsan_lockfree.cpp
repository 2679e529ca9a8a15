// Read by ThreadSanitizer at start; without it nobody calls this. A thread that pops from a
// boost::lockfree::queue may still read the link of a node that another one has just given back to
// the free list; what it read is thrown away, since the tag beside the pointer has changed. The
// link is written without an atomic, so the sanitizer reports it. Only that file is exempt.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:boost/lockfree/detail/freelist.hpp\n";
}
