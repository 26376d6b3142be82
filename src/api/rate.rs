//! How often somebody may ask: a bucket for each address, that fills by itself.
//!
//! Buckets that are full again say nothing, and are thrown away when there are too many. When all of many addresses are
//! busy, those that asked longest ago are forgotten: memory is bounded, at the price of a few more requests.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Addresses that are remembered.
const MOST: usize = 4096;

/// The buckets of all addresses.
#[derive(Debug)]
pub(crate) struct Rates {
    /// A second.
    rate: f64,
    burst: f64,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    pub(crate) fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, buckets: Mutex::default() }
    }

    /// Takes one; otherwise how long to wait for the next.
    pub(crate) fn take(&self, from: IpAddr) -> Result<(), Duration> {
        self.take_at(from, Instant::now(), 1.0)
    }

    /// Whether there is one, without taking it.
    pub(crate) fn look(&self, from: IpAddr) -> Result<(), Duration> {
        self.take_at(from, Instant::now(), 0.0)
    }

    fn take_at(&self, from: IpAddr, now: Instant, cost: f64) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= MOST && !buckets.contains_key(&from) {
            self.make_room(&mut buckets, now);
        }
        let bucket = buckets.entry(from).or_insert(Bucket { left: self.burst, at: now });
        bucket.left = self.level(*bucket, now);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= cost;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((1.0 - bucket.left) / self.rate).clamp(0.001, 3600.0)))
    }

    fn level(&self, bucket: Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.left + since * self.rate).min(self.burst)
    }

    fn make_room(&self, buckets: &mut HashMap<IpAddr, Bucket>, now: Instant) {
        buckets.retain(|_, bucket| self.level(*bucket, now) < self.burst);
        if buckets.len() >= MOST {
            let mut times: Vec<Instant> = buckets.values().map(|bucket| bucket.at).collect();
            times.sort_unstable();
            let middle = times.get(times.len() / 2).copied().unwrap_or(now);
            buckets.retain(|_, bucket| bucket.at > middle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u16) -> IpAddr {
        IpAddr::from([0, 0, 0, 0, 0, 0, 0, last])
    }

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let (rates, now) = (Rates::new(10.0, 3.0), Instant::now());
        for _ in 0..3 {
            assert_eq!(rates.take_at(ip(1), now, 1.0), Ok(()));
        }
        let wait = rates.take_at(ip(1), now, 1.0).unwrap_err();
        assert!(wait <= Duration::from_millis(101), "{wait:?}");
        assert_eq!(rates.take_at(ip(2), now, 1.0), Ok(()), "others are not concerned");
        let later = now + Duration::from_millis(110);
        assert_eq!(rates.take_at(ip(1), later, 1.0), Ok(()));
        assert!(rates.take_at(ip(1), later, 1.0).is_err());
    }

    #[test]
    fn memory_is_bounded_however_many_ask() {
        let (rates, now) = (Rates::new(0.001, 2.0), Instant::now());
        for last in 0..20_000 {
            let _ = rates.take_at(ip(last), now + Duration::from_millis(last.into()), 1.0);
        }
        assert!(rates.buckets.lock().len() <= MOST);
    }
}
