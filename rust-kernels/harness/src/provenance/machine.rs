//! The machine, without anything that names its owner: no host name, no user, no serial numbers.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What is known about this machine. Unknown facts are `None`, never guessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Such as `amd-epyc-2c`: processor and logical cores, or what `ASYNC_COST_MACHINE` says, where a fleet has several
    /// alike.
    pub(crate) name: String,
    pub(crate) cpu: Option<String>,
    pub(crate) architecture: Option<String>,
    pub(crate) logical_cores: Option<u32>,
    pub(crate) physical_cores: Option<u32>,
    /// Of the first core, smallest level first.
    pub(crate) caches: Option<Vec<Cache>>,
    pub(crate) memory_bytes: Option<u64>,
    /// `none`, the hypervisor's name, or `unknown hypervisor`.
    pub(crate) virtualisation: Option<String>,
    /// Frequency governor of the first core.
    pub(crate) governor: Option<String>,
    /// Such as `Linux 6.1.0`.
    pub(crate) kernel: Option<String>,
    pub(crate) os: Option<String>,
    /// How much of where things lie in memory the system draws anew for each process: 0 nothing, 1 all but the heap, 2
    /// everything.
    pub(crate) address_randomisation: Option<u32>,
    /// What the system does against each known weakness of the processor.
    pub(crate) mitigations: Option<BTreeMap<String, String>>,
    pub(crate) vendor: Unknown,
    pub(crate) minimum_mhz: Unknown,
    pub(crate) maximum_mhz: Unknown,
    pub(crate) threads_per_core: Unknown,
    pub(crate) core_types: Unknown,
    pub(crate) affinity: Unknown,
    pub(crate) quota_cores: Unknown,
}

/// A fact that run.json has a place for and this harness does not find out: null.
pub(crate) type Unknown = ();

/// One cache of the processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cache {
    pub(crate) level: u32,
    /// `data`, `instruction` or `unified`.
    pub(crate) kind: String,
    pub(crate) bytes: u64,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let cpu_info = read("/proc/cpuinfo").unwrap_or_default();
        let cpu = field(&cpu_info, "model name").map(plain);
        let logical_cores = logical_cores();
        Self {
            name: std::env::var("ASYNC_COST_MACHINE")
                .unwrap_or_else(|_| slug(cpu.as_deref().unwrap_or(std::env::consts::ARCH), logical_cores)),
            cpu,
            architecture: Some(std::env::consts::ARCH.to_owned()),
            logical_cores,
            physical_cores: physical_cores(&cpu_info),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            memory_bytes: read("/proc/meminfo").and_then(|text| memory(&text)),
            virtualisation: virtualisation(&cpu_info),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            kernel: kernel(),
            os: read("/etc/os-release").and_then(|text| os_name(&text)),
            address_randomisation: address_randomisation(),
            mitigations: mitigations(Path::new("/sys/devices/system/cpu/vulnerabilities")),
            vendor: (),
            minimum_mhz: (),
            maximum_mhz: (),
            threads_per_core: (),
            core_types: (),
            affinity: (),
            quota_cores: (),
        }
    }

    /// Notes what another process of the same run has found: the run is as random as the least random of them.
    pub(crate) fn note(&mut self, other: &Self) {
        let both = self.address_randomisation.zip(other.address_randomisation);
        self.address_randomisation = both.map(|(one, another)| one.min(another));
    }
}

/// The system's setting (proc_sys_kernel(5)); 0 in a process that was started without, as by `setarch -R`.
#[cfg(target_os = "linux")]
fn address_randomisation() -> Option<u32> {
    // SAFETY: with this number it returns the flags of this process, changes nothing, and touches no memory.
    match unsafe { libc::personality(0xffff_ffff) } {
        -1 => None,
        flags if flags & libc::ADDR_NO_RANDOMIZE != 0 => Some(0),
        _ => read("/proc/sys/kernel/randomize_va_space")?.parse().ok(),
    }
}

#[cfg(not(target_os = "linux"))]
fn address_randomisation() -> Option<u32> {
    None
}

/// The files of this folder, one for each weakness, with the one line that each of them holds.
fn mitigations(folder: &Path) -> Option<BTreeMap<String, String>> {
    let files = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let told = files
        .filter_map(|file| Some((plain(&file.file_name().into_string().ok()?), plain(&read(file.path())?))));
    let told: BTreeMap<_, _> = told.collect();
    (!told.is_empty()).then_some(told)
}

/// Load averages over 1, 5 and 15 minutes, in runnable tasks.
pub(crate) fn load() -> Option<[f64; 3]> {
    load_averages(&read("/proc/loadavg")?)
}

/// The load before anything of ours ran: a notebook's cells have just been compiled when it begins to measure, so
/// whoever started the notebook tells, in `ASYNC_COST_LOAD_BEFORE`. Without that, the load now.
pub(crate) fn load_before() -> Option<[f64; 3]> {
    match std::env::var("ASYNC_COST_LOAD_BEFORE") {
        Ok(told) => load_averages(&told),
        Err(_) => load(),
    }
}

/// The first three numbers of a text such as `0.31 0.72 0.80 1/123 4567` (proc_loadavg(5)).
fn load_averages(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split(' ').map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// Time that the hypervisor took away since boot, all processors together, in milliseconds.
pub(crate) fn steal_ms() -> Option<u64> {
    steal_ticks(&read("/proc/stat")?)?.checked_mul(1_000)?.checked_div(ticks_per_second()?)
}

/// The eighth number of the line `cpu` counts stolen ticks (proc_stat(5)).
fn steal_ticks(text: &str) -> Option<u64> {
    text.lines().find(|line| line.starts_with("cpu "))?.split_whitespace().nth(8)?.parse().ok()
}

fn ticks_per_second() -> Option<u64> {
    // SAFETY: sysconf takes a number, returns a number and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok()
}

/// System and release; the node name that uname knows as well is left where it is.
fn kernel() -> Option<String> {
    use std::ffi::CStr;
    use std::mem::MaybeUninit;

    let mut names = MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: uname writes to a struct of its own type, which we own.
    if unsafe { libc::uname(names.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: uname succeeded, so it has filled the struct.
    let names = unsafe { names.assume_init() };
    let text = |field: &[libc::c_char]| {
        // SAFETY: the fields are arrays that uname terminates with a zero byte, and `names` outlives the text
        // read here.
        let text = unsafe { CStr::from_ptr(field.as_ptr()) };
        text.to_string_lossy().into_owned()
    };
    Some(plain(&format!("{} {}", text(&names.sysname), text(&names.release))))
}

/// Processors that this process may use at most.
fn logical_cores() -> Option<u32> {
    let cores = std::thread::available_parallelism().ok()?;
    u32::try_from(cores.get()).ok()
}

fn physical_cores(cpu_info: &str) -> Option<u32> {
    let processors = cpu_info.split("\n\n");
    let cores: HashSet<(&str, &str)> =
        processors.filter_map(|text| Some((field(text, "physical id")?, field(text, "core id")?))).collect();
    u32::try_from(cores.len()).ok().filter(|cores| *cores > 0)
}

fn caches(folder: &Path) -> Option<Vec<Cache>> {
    let mut folders: Vec<_> =
        fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    let caches: Vec<Cache> = folders.iter().filter_map(|folder| cache(folder)).collect();
    (!caches.is_empty()).then_some(caches)
}

fn cache(folder: &Path) -> Option<Cache> {
    let text = |name: &str| read(folder.join(name));
    let kind = text("type")?.to_lowercase();
    Some(Cache { level: text("level")?.parse().ok()?, kind, bytes: size(&text("size")?)? })
}

/// `48K` and the like in bytes.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn memory(text: &str) -> Option<u64> {
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// Makers of virtual machines as the firmware spells them. Only these are written down: other firmware texts
/// may name an owner.
const HYPERVISORS: [&str; 12] = [
    "Amazon EC2",
    "DigitalOcean",
    "Google",
    "Hetzner",
    "KVM",
    "Microsoft",
    "OpenStack",
    "Parallels",
    "QEMU",
    "VMware",
    "VirtualBox",
    "Xen",
];

fn virtualisation(cpu_info: &str) -> Option<String> {
    // Processors other than x86 do not list their features under this name, so that absence means nothing
    // there.
    let flags = field(cpu_info, "flags")?;
    if !flags.split(' ').any(|flag| flag == "hypervisor") {
        return Some("none".to_owned());
    }
    let firmware = ["/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name", "/sys/hypervisor/type"];
    let firmware: Vec<String> = firmware.iter().filter_map(read).map(|text| text.to_lowercase()).collect();
    let known =
        HYPERVISORS.iter().find(|name| firmware.iter().any(|text| text.contains(&name.to_lowercase())));
    Some(known.map_or("unknown hypervisor", |name| name).to_owned())
}

fn os_name(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(plain(name.trim_matches('"')))
}

/// The first value of a `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// A file of one fact, without the line's end.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Text from outside, without control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}

/// Words of processor names that tell nothing apart.
const FILLERS: [&str; 8] = ["cpu", "processor", "r", "tm", "core", "with", "radeon", "graphics"];

/// Words of a processor's name that are kept: maker, family, model.
const SLUG_WORDS: usize = 4;

/// A folder name for this kind of machine.
fn slug(cpu: &str, logical_cores: Option<u32>) -> String {
    let cpu = cpu.to_lowercase();
    // `@ 2.20GHz` and what follows changes with the day and not with the model.
    let model = cpu.split('@').next().unwrap_or_default();
    let words = model
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty() && !FILLERS.contains(word));
    let mut words: Vec<String> = words.take(SLUG_WORDS).map(|word| word.chars().take(14).collect()).collect();
    if words.is_empty() {
        words.push("unknown".to_owned());
    }
    words.extend(logical_cores.map(|cores| format!("{cores}c")));
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_averages_are_the_first_three_numbers() {
        assert_eq!(load_averages("0.31 0.72 0.80 1/123 4567"), Some([0.31, 0.72, 0.80]));
        assert_eq!(load_averages("0.31 much 0.80"), None);
    }

    #[test]
    fn slugs_are_maker_family_model_and_cores() {
        let cases = [
            ("AMD EPYC", Some(2), "amd-epyc-2c"),
            ("Intel(R) Xeon(R) CPU @ 2.20GHz", Some(4), "intel-xeon-4c"),
            ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", Some(12), "intel-i7-9750h-12c"),
            ("AMD Ryzen 9 7950X 16-Core Processor", Some(32), "amd-ryzen-9-7950x-32c"),
            ("../..", None, "unknown"),
        ];
        for (cpu, cores, name) in cases {
            assert_eq!(slug(cpu, cores), name);
        }
    }

    #[test]
    fn facts_are_read_from_their_files() {
        let cpu_info =
            "physical id : 0\ncore id : 0\n\nphysical id : 0\ncore id : 0\n\nphysical id : 0\ncore id : 1\n";
        assert_eq!(physical_cores(cpu_info), Some(2));
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:       2048 kB\n").unwrap_or(0), 2 << 20);
        assert_eq!(
            [size("48K"), size("1M"), size("7"), size("x"), size("")],
            [Some(49_152), Some(1 << 20), Some(7), None, None]
        );
        assert_eq!(steal_ticks("cpu  1 2 3 4 5 6 7 158 0 0\ncpu0 1\n"), Some(158));
        assert_eq!(os_name("NAME=x\nPRETTY_NAME=\"Some Linux 12\"\n").as_deref(), Some("Some Linux 12"));
    }

    #[test]
    fn unknown_facts_stay_unknown() {
        assert_eq!(physical_cores(""), None);
        assert_eq!(virtualisation("Processor: none\n"), None);
        assert_eq!(virtualisation("flags : fpu sse\n").as_deref(), Some("none"));
        assert_eq!(caches(Path::new("/nowhere")), None);
        assert_eq!(mitigations(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_run_is_as_random_as_the_least_random_of_its_processes() {
        let with = |address_randomisation| Machine { address_randomisation, ..Machine::this() };
        for (one, other, both) in
            [(Some(2), Some(0), Some(0)), (Some(1), Some(2), Some(1)), (Some(2), None, None)]
        {
            let mut run = with(one);
            run.note(&with(other));
            assert_eq!(run.address_randomisation, both);
        }
    }

    #[test]
    fn this_machine_has_a_plain_name() {
        let name = Machine::this().name;
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') && name.len() < 64,
            "{name}"
        );
    }
}
