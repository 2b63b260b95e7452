// The words of jobs, their options as JSON, and which are refused.
#include "core/job.hpp"
#include "core/validation.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <cstdio>

namespace posthorn {
namespace {

constexpr std::size_t job_name_bytes_max = 200;
constexpr std::size_t catch_up_limit = 1'000;
constexpr std::size_t waiting_limit = 10'000;

constexpr std::array misfire_words{std::string_view{"skip"}, std::string_view{"fire-once"},
                                   std::string_view{"catch-up"}};
constexpr std::array overlap_words{std::string_view{"skip"}, std::string_view{"queue"},
                                   std::string_view{"allow"}};
constexpr std::array put_words{std::string_view{"created"}, std::string_view{"changed"},
                               std::string_view{"unchanged"}};
constexpr std::array execution_state_words{
    std::string_view{"waiting"}, std::string_view{"enqueued"}, std::string_view{"running"},
    std::string_view{"done"},    std::string_view{"failed"},   std::string_view{"cancelled"},
    std::string_view{"skipped"}, std::string_view{"coalesced"}};
constexpr std::array execution_kind_words{
    std::string_view{"scheduled"}, std::string_view{"triggered"}, std::string_view{"backfilled"},
    std::string_view{"timer"}};

template <typename Word, std::size_t Count>
std::string_view job_word(const std::array<std::string_view, Count>& words, Word which) noexcept
{
    const auto index = static_cast<std::size_t>(which);
    return index < Count ? words[index] : std::string_view{"unknown"};
}

template <typename Word, std::size_t Count>
std::optional<Word> job_word_of(const std::array<std::string_view, Count>& words,
                                std::string_view text) noexcept
{
    for (std::size_t i = 0; i < Count; ++i)
        if (words[i] == text)
            return static_cast<Word>(i);
    return std::nullopt;
}

[[noreturn]] void refuse_job(const std::string& why)
{
    throw error(error_code::invalid_argument, "job: " + why);
}

} // namespace

std::string_view to_string(misfire policy) noexcept
{
    return job_word(misfire_words, policy);
}

std::string_view to_string(overlap policy) noexcept
{
    return job_word(overlap_words, policy);
}

std::optional<misfire> parse_misfire(std::string_view text) noexcept
{
    return job_word_of<misfire>(misfire_words, text);
}

std::optional<overlap> parse_overlap(std::string_view text) noexcept
{
    return job_word_of<overlap>(overlap_words, text);
}

std::string_view to_string(put_answer answer) noexcept
{
    return job_word(put_words, answer);
}

std::string_view to_string(execution_state state) noexcept
{
    return job_word(execution_state_words, state);
}

std::string_view to_string(execution_kind kind) noexcept
{
    return job_word(execution_kind_words, kind);
}

std::optional<job_run> job_run_of(const headers& of)
{
    const auto text = [&](std::string_view name) {
        const auto found = of.find(name);
        return found == of.end() ? std::string{} : found->second;
    };
    const auto execution = execution_id::parse(text(header::execution));
    const auto nominal = core::parse_iso(text(header::job_nominal));
    const auto kind = job_word_of<execution_kind>(execution_kind_words, text(header::job_kind));
    if (!execution || !nominal || !kind)
        return std::nullopt;
    job_run result{
        .job = text(header::job), .execution = *execution, .nominal_at = *nominal, .kind = *kind};
    const auto covers = text(header::job_covers);
    (void)std::from_chars(covers.data(), covers.data() + covers.size(), result.covers);
    return result;
}

namespace core {

void check_job_name(std::string_view name)
{
    if (name.empty() || name.size() > job_name_bytes_max || !is_text(name))
        refuse_job(fmt::format("a name has 1 to {} bytes of UTF-8 text", job_name_bytes_max));
}

void check_job(std::string_view name, const job_options& how, const limits& bounds)
{
    check_job_name(name);
    check_message(
        how.run,
        {.ordering_key = how.ordering_key, .priority = how.priority, .headers = how.headers},
        bounds);
    if (how.cron.empty() == !how.every)
        refuse_job("give either a cron expression or an interval");
    if (how.every && how.zone != "UTC")
        refuse_job("an interval has no time zone");
    if (how.anchor && !how.every)
        refuse_job("only an interval has an anchor");
    if (how.late_after < duration::zero() || how.late_after > limits::span_max)
        refuse_job("late_after must not be negative, and at most a hundred years");
    if (how.jitter < duration::zero() || how.jitter > std::chrono::hours{24})
        refuse_job("the jitter must not be negative, and at most a day");
    if (how.catch_up_max == 0 || how.catch_up_max > catch_up_limit)
        refuse_job(fmt::format("catch_up_max must be 1 to {}", catch_up_limit));
    if (how.waiting_max == 0 || how.waiting_max > waiting_limit)
        refuse_job(fmt::format("waiting_max must be 1 to {}", waiting_limit));
}

std::string definition_of(const job_options& how)
{
    nlohmann::json all{{"misfire", to_string(how.on_misfire)},
                       {"late_after_us", how.late_after.count()},
                       {"catch_up_max", how.catch_up_max},
                       {"overlap", to_string(how.on_overlap)},
                       {"waiting_max", how.waiting_max}};
    if (how.every)
        all["every_us"] = how.every->count();
    else
        all.update({{"cron", how.cron}, {"zone", how.zone}});
    if (how.anchor)
        all["anchor_us"] = how.anchor->time_since_epoch().count();
    if (how.jitter != duration::zero())
        all["jitter_us"] = how.jitter.count();
    if (how.priority != 0)
        all["priority"] = how.priority;
    if (!how.ordering_key.empty())
        all["ordering_key"] = how.ordering_key;
    if (!how.headers.empty())
        all["headers"] = how.headers;
    return all.dump();
}

job_options options_from(std::string_view definition)
{
    try {
        const auto all = nlohmann::json::parse(definition);
        job_options result;
        result.cron = all.value("cron", std::string{});
        result.zone = all.value("zone", std::string{"UTC"});
        if (all.contains("every_us"))
            result.every = duration{all.at("every_us").get<std::int64_t>()};
        if (all.contains("anchor_us"))
            result.anchor = timestamp{duration{all.at("anchor_us").get<std::int64_t>()}};
        result.on_misfire =
            parse_misfire(all.value("misfire", std::string{})).value_or(misfire::fire_once);
        result.late_after = duration{all.value("late_after_us", std::int64_t{60'000'000})};
        result.catch_up_max = all.value("catch_up_max", std::size_t{100});
        result.on_overlap =
            parse_overlap(all.value("overlap", std::string{})).value_or(overlap::skip);
        result.waiting_max = all.value("waiting_max", std::size_t{100});
        result.jitter = duration{all.value("jitter_us", std::int64_t{0})};
        result.priority = all.value("priority", 0);
        result.ordering_key = all.value("ordering_key", std::string{});
        if (const auto kept = all.find("headers"); kept != all.end())
            for (const auto& [name, value] : kept->items())
                result.headers.emplace(name, value.get<std::string>());
        return result;
    } catch (const nlohmann::json::exception&) {
        throw error(error_code::corrupt, "the definition of a job cannot be read");
    }
}

std::string iso_text(timestamp when)
{
    using namespace std::chrono;
    const auto day = floor<days>(when);
    const year_month_day date{day};
    const hh_mm_ss time{when - day};
    auto text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", int(date.year()),
                            unsigned(date.month()), unsigned(date.day()), time.hours().count(),
                            time.minutes().count(), time.seconds().count());
    if (time.subseconds() != duration::zero())
        text += fmt::format(".{:06}", time.subseconds().count());
    return text + 'Z';
}

std::optional<timestamp> parse_iso(std::string_view text)
{
    using namespace std::chrono;
    int y = 0;
    unsigned month = 0;
    unsigned day = 0;
    int hour = 0;
    int minute = 0;
    int second = 0;
    int used = 0;
    const std::string copy(text);
    constexpr int fields = 6;
    if (std::sscanf(copy.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d%n", &y, &month, &day, &hour, &minute,
                    &second, &used) != fields)
        return std::nullopt;
    auto rest = text.substr(static_cast<std::size_t>(used));
    const year_month_day date{year{y} / month / day};
    if (!date.ok() || hour > 23 || minute > 59 || second > 59 || hour < 0 || minute < 0 ||
        second < 0)
        return std::nullopt;
    std::int64_t fraction = 0;
    if (rest.starts_with('.')) {
        constexpr std::size_t digits = 6;
        const auto* begin = rest.data() + 1;
        if (rest.size() < digits + 1 ||
            std::from_chars(begin, begin + digits, fraction).ptr != begin + digits)
            return std::nullopt;
        rest.remove_prefix(digits + 1);
    }
    if (rest != "Z")
        return std::nullopt;
    return sys_days{date} + hours{hour} + minutes{minute} + seconds{second} + duration{fraction};
}

} // namespace core
} // namespace posthorn
