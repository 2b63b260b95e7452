// Files that are opened when they are needed, and watched whether or not they are open.
#include "store/sqlite/files.hpp"

#include "store/contract/shelf.hpp"
#include "store/contract/url.hpp"
#include "store/sqlite/backend.hpp"
#include "store/sqlite/file_watch.hpp"

#include <fmt/format.h>

#include <mutex>
#include <sys/stat.h>
#include <utility>

namespace posthorn::sqlite {
namespace {

// A thread that waits for a locked file is not there for others, so it does not wait for long.
constexpr std::chrono::seconds busy_timeout_of_many{1};

// Nor may it take the processor from them, as trying all the time would.
constexpr std::chrono::milliseconds nap_max_of_many{2};

// Which file it is, whatever its name: one that was replaced must be opened again.
std::string identity_of(const std::string& path)
{
    struct stat found {};
    if (stat(path.c_str(), &found) != 0)
        return {};
    return fmt::format("{}:{}", found.st_dev, found.st_ino);
}

class files final : public contract::premises {
public:
    files(const store_options& options, std::size_t open_max)
        : options_(options), open_max_(open_max), open_(std::make_shared<contract::shelf>(open_max))
    {}

    contract::reach way_to(const std::string& url) override
    {
        auto where = location::parse(url, options_);
        if (where.in_memory())
            return {.open = [kept = std::make_shared<kept_open>(std::move(where), options_)] {
                return kept->get();
            }};
        if (!contract::store_url::parse(url).parameters.contains("busy_timeout"))
            where.settings.busy_timeout = busy_timeout_of_many;
        where.settings.nap_max = nap_max_of_many;
        const auto path = where.path;
        return {
            .open =
                [shelf = open_, options = options_, url, where] {
                    return shelf->get(url, identity_of(where.path),
                                      [&] { return std::make_shared<backend>(where, options); });
                },
            .listen = [watch = watch_, path](
                          std::function<void()> ring) { return watch->add(path, std::move(ring)); },
            .open_max = open_max_};
    }

private:
    // A store in memory would be another one if it were opened again.
    struct kept_open {
        kept_open(location at, store_options with) : where(std::move(at)), options(std::move(with))
        {}
        std::shared_ptr<contract::backend> get()
        {
            const std::lock_guard lock(mutex);
            if (!one)
                one = std::make_shared<backend>(where, options);
            return one;
        }

        location where;
        store_options options;
        std::mutex mutex;
        std::shared_ptr<contract::backend> one;
    };

    store_options options_;
    std::size_t open_max_;
    std::shared_ptr<contract::shelf> open_; ///< both are shared with the ways to the stores
    std::shared_ptr<file_watch> watch_ = std::make_shared<file_watch>();
};

} // namespace

std::shared_ptr<contract::premises> make_files(const store_options& options, std::size_t open_max)
{
    return std::make_shared<files>(options, open_max);
}

} // namespace posthorn::sqlite
