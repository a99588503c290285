//! Libraries in Rust in the row of libraries: one decision per call.
//!
//!     sluice-rivals governor|throttlecrab|limitador KEYS SECONDS
//!
//! All keys once, then keys in a random order for some seconds. Prints CPU time
//! of the process per decision and resident bytes per key.
use std::num::NonZeroU32;
use std::time::{Duration, Instant, SystemTime};

fn cpu_seconds() -> f64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut ts) };
    ts.tv_sec as f64 + ts.tv_nsec as f64 / 1e9
}

fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64
}

fn measure(keys: &[String], seconds: f64, mut take: impl FnMut(&String) -> bool) {
    let before = resident();
    for key in keys {
        assert!(take(key));
    }
    let bytes = (resident() - before) / keys.len() as f64;
    let (began, wall) = (cpu_seconds(), Instant::now());
    let (mut x, mut done) = (88172645463325252u64, 0u64);
    while wall.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..4096 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            assert!(take(&keys[(x % keys.len() as u64) as usize]));
        }
        done += 4096;
    }
    println!(
        "{{\"ns\": {:.1}, \"bytes\": {:.1}, \"decisions\": {}, \"seconds\": {:.4}}}",
        (cpu_seconds() - began) * 1e9 / done as f64,
        bytes,
        done,
        wall.elapsed().as_secs_f64()
    );
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let count: usize = args[2].parse().unwrap();
    let seconds: f64 = args[3].parse().unwrap();
    let keys: Vec<String> = (0..count).map(|i| format!("user:{i:07}")).collect();
    match args[1].as_str() {
        "governor" => {
            let quota = governor::Quota::with_period(Duration::from_millis(8640))
                .unwrap()
                .allow_burst(NonZeroU32::new(1_000_000).unwrap());
            let limiter = governor::RateLimiter::keyed(quota);
            measure(&keys, seconds, |key| limiter.check_key(key).is_ok());
        }
        "throttlecrab" => {
            let mut limiter = throttlecrab::RateLimiter::new(throttlecrab::AdaptiveStore::new());
            measure(&keys, seconds, |key| {
                let now = SystemTime::now();
                limiter.rate_limit(key, 1_000_000, 10_000, 86400, 1, now).unwrap().0
            });
        }
        #[cfg(feature = "limitador")]
        "limitador" => {
            use std::collections::HashMap;
            use limitador::limit::{Context, Limit};
            let limiter = limitador::RateLimiter::new(count as u64 * 2);
            let user = vec!["user_id".try_into().unwrap()];
            limiter.add_limit(Limit::new("bench", 1_000_000, 86400, vec![], user));
            let name = "bench".into();
            measure(&keys, seconds, |key| {
                let mut values: HashMap<String, String> = HashMap::new();
                values.insert("user_id".to_string(), key.clone());
                let ctx: Context = values.into();
                !limiter.check_rate_limited_and_update(&name, &ctx, 1).unwrap().limited
            });
        }
        other => panic!("unknown library {other}"),
    }
}
