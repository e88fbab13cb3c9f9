"""Records to tensors: readers, a store on disk, length buckets, collation."""
