// Package compact reduces the memory that objects in caches need, without changing their values. Decoders allocate each
// string separately, although a cache contains the same label keys, kinds and names thousands of times, and leave unused
// capacity in slices. Package controller passes each object through it before the object enters a cache.
package compact
