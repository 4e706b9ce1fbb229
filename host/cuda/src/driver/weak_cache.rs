//! Weak cache: one value a key for the whole process, as long as it has an owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// At most one live `T` under each number. The cache keeps no value alive.
#[derive(Debug)]
pub(super) struct WeakCache<T> {
    known: Mutex<BTreeMap<u32, Weak<T>>>,
}

impl<T> WeakCache<T> {
    pub(super) const fn new() -> Self {
        Self { known: Mutex::new(BTreeMap::new()) }
    }

    /// The live value, or a new one. A value whose last handle is being dropped is not live: a new value is made
    /// while the old one ends.
    pub(super) fn get_or_make<E>(
        &self,
        number: u32,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        // The lock is held while the value is made, so that two threads do not make two. After a panic the map is
        // still valid.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = known.get(&number).and_then(Weak::upgrade) {
            return Ok(cache);
        }
        let new = Arc::new(make()?);
        known.insert(number, Arc::downgrade(&new));
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_gpu::atomic::DeviceU64;
    use std::convert::Infallible;
    use std::sync::Barrier;
    use std::sync::atomic::Ordering;

    fn get(cache: &WeakCache<u64>, number: u32, new: u64) -> Arc<u64> {
        let Ok(one) = cache.get_or_make(number, || Ok::<_, Infallible>(new));
        one
    }

    #[test]
    fn handles_share_what_lives_and_nothing_more() {
        let cache = WeakCache::new();
        let one = get(&cache, 0, 1);
        assert!(Arc::ptr_eq(&one, &get(&cache, 0, 2)));
        assert_eq!(*get(&cache, 7, 3), 3, "under another number");
        assert_eq!(Arc::strong_count(&one), 1, "nobody else keeps it");
        drop(one);
        assert_eq!(*get(&cache, 0, 4), 4);
        assert_eq!(*get(&cache, 0, 5), 5, "the one before was dropped at once");
    }

    #[test]
    fn what_could_not_be_made_is_made_by_the_next() {
        let cache = WeakCache::new();
        assert_eq!(cache.get_or_make(0, || Err("no device")).err(), Some("no device"));
        assert_eq!(*get(&cache, 0, 1), 1);
    }

    #[test]
    fn of_threads_that_ask_at_once_one_makes_it() {
        const THREADS: usize = 4;
        for _ in 0..100 {
            let (cache, made, all) = (WeakCache::new(), DeviceU64::new(0), Barrier::new(THREADS));
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let make = || {
                            std::thread::yield_now();
                            Ok::<_, Infallible>(made.fetch_add(1, Ordering::Relaxed))
                        };
                        all.wait();
                        let Ok(one) = cache.get_or_make(0, make);
                        // Held by all of them until each has one.
                        all.wait();
                        assert_eq!(*one, 0);
                    });
                }
            });
            assert_eq!(made.load(Ordering::Relaxed), 1);
        }
    }
}
