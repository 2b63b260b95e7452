// Handlers run in the correlation of their message, and what they enqueue belongs to it.
#include "runtime/thread_pool.hpp"
#include "runtime/worker_test.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>
#include <posthorn/in_process.hpp>
#include <posthorn/publisher.hpp>

#include <memory>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

std::string ambient_in_handler()
{
    const auto now = correlation_scope::current();
    return now ? now->id() : "nothing";
}

constexpr auto trace_of_request = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

class correlated_handlers : public worker_test {
protected:
    /// The only message of a topic.
    message_record only(const std::string& topic)
    {
        const auto all = list_messages(db(), {.topic = topic});
        EXPECT_EQ(all.size(), 1U) << topic;
        return all.empty() ? message_record{} : all.front();
    }

    void expect_descent(const message_record& of, const std::string& correlation, message_id cause)
    {
        EXPECT_EQ(of.correlation_id, correlation);
        EXPECT_EQ(of.causation_id, to_string(cause));
    }

    /// Handles one message with this handler.
    template <typename Function>
    run_report handle(Function handler, worker_options options = steady(1))
    {
        worker one(db(), std::move(options));
        one.handle("orders", std::move(handler));
        return one.process_outbox();
    }
};

// Proves: COR-05, COR-06
TEST_P(correlated_handlers, what_a_handler_enqueues_belongs_to_what_its_message_belongs_to)
{
    const auto id = add("orders", {.correlation_id = "order-7", .causation_id = "a click"});
    handle([&](const delivery_view&) {
        enqueue(db(), message{"alone", ""}, {.delay = 1h});
        auto tx = db().begin();
        enqueue(tx, message{"with others", "payload"}, {.ordering_key = "k", .delay = 1h});
        tx.commit();
        enqueue(db(), std::vector<outgoing>{{{"in bulk", ""}, {.delay = 1h}}});
    });
    for (const auto* topic : {"alone", "with others", "in bulk"}) {
        expect_descent(only(topic), "order-7", id);
        EXPECT_EQ(only(topic).headers, headers{}); // nothing else is added
    }
    EXPECT_EQ(look(id).causation_id, "a click");
    EXPECT_EQ(correlation_scope::current(), nullptr);
}

// Proves: COR-05, COR-06
TEST_P(correlated_handlers, a_transactional_handler_is_no_different)
{
    const auto id = add("orders", {.correlation_id = "order-7"});
    const auto report = handle([&](transactional_delivery<>& which) {
        EXPECT_EQ(ambient_in_handler(), "order-7");
        enqueue(which.tx(), message{"next", ""}, {.delay = 1h});
    });
    EXPECT_EQ(report.done, 1U);
    expect_descent(only("next"), "order-7", id);
}

// Proves: COR-05, COR-06
TEST_P(correlated_handlers, a_message_without_a_correlation_begins_one_with_its_id)
{
    const auto id = add();
    handle([&](const delivery_view&) { enqueue(db(), message{"next", ""}, {.delay = 1h}); });
    EXPECT_EQ(look(id).correlation_id, "");
    expect_descent(only("next"), to_string(id), id);
}

// Proves: COR-05, COR-06
TEST_P(correlated_handlers, a_chain_of_messages_keeps_its_correlation_and_names_each_cause)
{
    const auto first = add("a", {.correlation_id = "order-7"});
    worker one(db(), steady());
    const auto pass_on_to = [&](const char* topic) {
        return [this, topic](const delivery_view&) { enqueue(db(), message{topic, ""}); };
    };
    one.handle("a", pass_on_to("b"));
    one.handle("b", pass_on_to("c"));
    one.handle("c", [](const delivery_view&) {});
    EXPECT_EQ(one.process_outbox().done, 3U);
    expect_descent(only("b"), "order-7", first);
    expect_descent(only("c"), "order-7", only("b").id);
}

// Proves: COR-04, COR-05
TEST_P(correlated_handlers, what_an_enqueue_says_itself_wins)
{
    const auto id = add("orders", {.correlation_id = "order-7"});
    handle([&](const delivery_view&) {
        enqueue(db(), message{"both", ""},
                {.delay = 1h, .correlation_id = "mine", .causation_id = "a tap"});
        enqueue(db(), message{"one", ""}, {.delay = 1h, .correlation_id = "mine"});
    });
    EXPECT_EQ(only("both").correlation_id, "mine");
    EXPECT_EQ(only("both").causation_id, "a tap");
    expect_descent(only("one"), "mine", id); // what caused it is a fact all the same
}

// Proves: COR-05, OUT-07
TEST_P(correlated_handlers, a_scope_changes_nothing_about_deduplication)
{
    const auto first = enqueue(db(), message{"mail", "hello"}, {.delay = 1h, .dedup_key = "d"});
    add("orders", {.correlation_id = "order-7"});
    handle([&](const delivery_view&) {
        const auto again = enqueue(db(), message{"mail", "hello"}, {.delay = 1h, .dedup_key = "d"});
        EXPECT_TRUE(again.duplicate);
        EXPECT_EQ(again.id, first.id);
    });
    EXPECT_EQ(only("mail").correlation_id, "");
}

// Proves: COR-05
TEST_P(correlated_handlers, the_scope_ends_with_a_handler_that_throws)
{
    const auto first = add("orders", {.correlation_id = "first"});
    const auto second = add("orders", {.correlation_id = "second"});
    notes seen;
    std::vector<std::unique_ptr<correlation_scope>> kept; // which a handler forgot to end
    const auto report = handle([&](const delivery_view& which) {
        seen.add(ambient_in_handler());
        if (which.id() == first) {
            kept.emplace_back(new correlation_scope(correlation_scope::begin("left behind")));
            throw permanent_failure("oh");
        }
    });
    EXPECT_EQ(report.dead, 1U);
    EXPECT_THAT(seen.all(), ElementsAre("first", "second"));
    EXPECT_EQ(state_of(second), message_state::done);
    EXPECT_EQ(correlation_scope::current(), nullptr);
}

// Proves: COR-01, COR-05
TEST_P(correlated_handlers, a_scope_inside_of_a_handler_is_nested_in_its_own)
{
    const auto id = add("orders", {.correlation_id = "order-7"});
    handle([&](const delivery_view&) {
        {
            const auto inner = correlation_scope::begin("inner");
            enqueue(db(), message{"inside", ""}, {.delay = 1h});
        }
        enqueue(db(), message{"after", ""}, {.delay = 1h});
    });
    expect_descent(only("inside"), "inner", id);
    expect_descent(only("after"), "order-7", id);
}

// Proves: COR-05
TEST_P(correlated_handlers, hooks_and_middleware_run_inside_of_the_scope)
{
    add("orders", {.correlation_id = "order-7"});
    notes seen;
    auto options = steady(1);
    options.on.starting = [&](const delivery_view&) {
        seen.add("starting " + ambient_in_handler());
    };
    options.on.ended = [&](const delivery_view&, const outcome&, duration) {
        seen.add("ended " + ambient_in_handler());
    };
    options.around.push_back([&](const delivery_view&, const auto& next) {
        seen.add("around " + ambient_in_handler());
        return next();
    });
    options.classify = [&](const std::exception_ptr&) {
        seen.add("classify " + ambient_in_handler());
        return posthorn::fail("classified");
    };
    handle([](const delivery_view&) { throw std::runtime_error("oh"); }, options);
    EXPECT_THAT(seen.all(), ElementsAre("starting order-7", "around order-7", "classify order-7",
                                        "ended order-7"));
}

// Proves: COR-03, COR-05, COR-06
TEST_P(correlated_handlers, every_hook_of_every_form_runs_inside_of_the_scope_and_enqueues_in_it)
{
    notes seen;
    const auto options_of = [&](const std::string& form) {
        auto options = steady(1);
        const auto note = [&, form](const std::string& hook) {
            seen.add(form + " " + hook + " " + ambient_in_handler());
            enqueue(db(), message{form + "." + hook, ""}, {.delay = 1h});
        };
        options.on.starting = [note](const delivery_view&) { note("starting"); };
        options.on.ended = [note](const delivery_view&, const outcome&, duration) {
            note("ended");
        };
        options.on.settled = [note](const delivery_view&, settled_as) { note("settled"); };
        options.classify = [note](const std::exception_ptr&) {
            note("classify");
            return posthorn::fail("classified");
        };
        return options;
    };
    const auto expect_hooks = [&](const std::string& form, message_id id,
                                  const std::vector<std::string>& hooks) {
        for (const auto& hook : hooks) {
            EXPECT_THAT(seen.all(), ::testing::Contains(form + " " + hook + " cart-" + form));
            expect_descent(only(form + "." + hook), "cart-" + form, id);
        }
        EXPECT_EQ(seen.size(), hooks.size());
        seen.clear();
    };
    const auto order_of = [&](const std::string& form) {
        return add("orders", {.correlation_id = "cart-" + form});
    };

    auto id = order_of("plain");
    handle([](const delivery_view&) {}, options_of("plain"));
    expect_hooks("plain", id, {"starting", "ended", "settled"});
    id = order_of("inside");
    handle([](transactional_delivery<>&) {}, options_of("inside"));
    expect_hooks("inside", id, {"starting", "ended", "settled"});
    id = order_of("thrown");
    handle([](const delivery_view&) { throw std::runtime_error("oh"); }, options_of("thrown"));
    expect_hooks("thrown", id, {"starting", "classify", "ended", "settled"});
    id = order_of("undone");
    handle([](transactional_delivery<>&) { throw std::runtime_error("oh"); }, options_of("undone"));
    expect_hooks("undone", id, {"starting", "classify", "ended", "settled"});
    id = order_of("parked"); // by a worker that has no handler for it
    worker other(db(), options_of("parked"));
    EXPECT_EQ(other.process_outbox().parked, 1U);
    expect_hooks("parked", id, {"settled"});
    EXPECT_EQ(correlation_scope::current(), nullptr);
}

// Proves: COR-04, COR-05, I22
TEST_P(correlated_handlers, numbers_go_on_from_hook_to_handler_to_hook)
{
    for (const bool inside : {false, true}) {
        add("orders", {.correlation_id = inside ? "inside" : "plain"});
        outbox_publisher publisher(db());
        const auto publish = [&](const std::string& where) {
            publisher.publish(message{(inside ? "inside " : "plain ") + where, ""}, {.delay = 1h});
        };
        auto options = steady(1);
        options.on.starting = [&](const delivery_view&) { publish("starting"); };
        options.on.ended = [&](const delivery_view&, const outcome&, duration) {
            publish("ended");
        };
        options.on.settled = [&](const delivery_view&, settled_as) { publish("settled"); };
        if (inside)
            handle(
                [&](transactional_delivery<>& which) {
                    publisher.publish(which.tx(), message{"inside handler", ""}, {.delay = 1h});
                },
                options);
        else
            handle([&](const delivery_view&) { publish("handler"); }, options);
        int number = 0;
        for (const auto* where : {"starting", "handler", "ended", "settled"})
            EXPECT_EQ(only((inside ? "inside " : "plain ") + std::string(where))
                          .headers.at("posthorn-corr-seq"),
                      std::to_string(++number))
                << where;
    }
}

// Proves: COR-04, COR-05
TEST_P(correlated_handlers, both_publishers_draw_from_one_sequence)
{
    const auto id = add("orders", {.correlation_id = "order-7"});
    const auto bus = std::make_shared<in_process_transport>();
    std::vector<transport_message> arrived;
    const auto listening =
        bus->subscribe("*", [&](const transport_message& what) { arrived.push_back(what); });
    outbox_publisher through_outbox(db());
    direct_publisher directly(bus, world());
    handle([&](const delivery_view&) {
        through_outbox.publish(message{"first", ""}, {.delay = 1h});
        EXPECT_TRUE(directly.publish(message{"second", ""}).accepted());
        through_outbox.publish(message{"third", ""}, {.delay = 1h});
    });
    expect_descent(only("first"), "order-7", id);
    expect_descent(only("third"), "order-7", id);
    EXPECT_EQ(only("first").headers, (headers{{"posthorn-corr-seq", "1"}}));
    EXPECT_EQ(only("third").headers, (headers{{"posthorn-corr-seq", "3"}}));
    ASSERT_EQ(arrived.size(), 1U);
    EXPECT_EQ(arrived.front().headers.at("posthorn-corr-id"), "order-7");
    EXPECT_EQ(arrived.front().headers.at("posthorn-corr-seq"), "2");
    EXPECT_EQ(arrived.front().headers.at("posthorn-causation-id"), to_string(id));
}

// Proves: COR-04, COR-05
TEST_P(correlated_handlers, may_pass_on_the_headers_of_what_they_handle)
{
    outbox_publisher publisher(db());
    const auto id = publisher
                        .publish(message{"orders", ""},
                                 {.correlation_id = "order-7",
                                  .headers = {{"lang", "de"}, {"posthorn-corr-seq", "5"}}})
                        .id;
    const auto report = handle([&](const delivery_view& which) {
        EXPECT_EQ(which.headers().at("posthorn-corr-seq"), "5");
        enqueue(db(), message{"copy", ""}, {.delay = 1h, .headers = which.headers()});
    });
    EXPECT_EQ(report.done, 1U);
    expect_descent(only("copy"), "order-7", id);
    EXPECT_EQ(only("copy").headers, (headers{{"lang", "de"}}))
        << "the number is that of the message that was handled";
    // Elsewhere the name is a mistake, as are the other names of ours anywhere.
    EXPECT_THROW(enqueue(db(), message{"copy", ""}, {.headers = {{"posthorn-corr-seq", "5"}}}),
                 error);
}

// Proves: COR-05, OUT-19
TEST_P(correlated_handlers, a_transaction_that_is_run_again_counts_from_the_beginning)
{
    add("orders", {.correlation_id = "order-7"});
    outbox_publisher publisher(db());
    int runs = 0;
    const auto report = handle([&](transactional_delivery<>& which) {
        publisher.publish(which.tx(), message{"next", ""}, {.delay = 1h});
        if (++runs < 3)
            throw error(error_code::serialization, "deadlock", {.retryable = true});
    });
    EXPECT_EQ(report.done, 1U);
    EXPECT_EQ(only("next").headers.at("posthorn-corr-seq"), "1");
}

// Proves: COR-05
TEST_P(correlated_handlers, a_trace_context_travels_on_with_a_new_span)
{
    add("orders", {.headers = {{"traceparent", trace_of_request}, {"tracestate", "vendor=1"}}});
    outbox_publisher publisher(db());
    handle([&](const delivery_view&) {
        enqueue(db(), message{"enqueued", ""}, {.delay = 1h});
        publisher.publish(message{"published", ""}, {.delay = 1h});
    });
    std::vector<std::string> spans{trace_of_request};
    for (const auto* topic : {"enqueued", "published"}) {
        const auto found = only(topic).headers;
        EXPECT_THAT(found.at("traceparent"), StartsWith("00-0af7651916cd43dd8448eb211c80319c-"));
        EXPECT_EQ(found.at("tracestate"), "vendor=1");
        EXPECT_THAT(spans, ::testing::Not(::testing::Contains(found.at("traceparent"))));
        spans.push_back(found.at("traceparent"));
    }
}

// Proves: COR-05
TEST_P(correlated_handlers, a_trace_context_that_is_not_valid_is_dropped_and_harms_nothing)
{
    const auto id = add("orders", {.headers = {{"traceparent", "broken"}, {"tracestate", "v=1"}}});
    handle([&](const delivery_view&) { enqueue(db(), message{"next", ""}, {.delay = 1h}); });
    EXPECT_EQ(state_of(id), message_state::done);
    EXPECT_EQ(only("next").headers, headers{});
}

// Proves: COR-02
TEST_P(correlated_handlers, threads_that_a_handler_starts_take_its_context_along_if_it_is_bound)
{
    const auto id = add("orders", {.correlation_id = "order-7"});
    handle([&](const delivery_view&) {
        std::jthread(bind_context([&] {
            enqueue(db(), message{"next", ""}, {.delay = 1h});
        })).join();
    });
    expect_descent(only("next"), "order-7", id);
}

CONFORMANCE_SUITE(correlated_handlers);

// Proves: COR-02
TEST(thread_pool_context, a_task_finds_what_was_ambient_where_it_was_submitted)
{
    runtime::thread_pool pool(1);
    notes seen;
    {
        const auto scope = correlation_scope::begin("submitted");
        pool.submit({[&] { seen.add(ambient_in_handler()); }});
    }
    ASSERT_TRUE(eventually([&] { return seen.size() == 1; }));
    EXPECT_THAT(seen.all(), ElementsAre("submitted"));
}

// Proves: COR-02
TEST(thread_pool_context, a_task_never_finds_what_another_left_behind)
{
    runtime::thread_pool pool(1);
    notes seen;
    std::vector<std::unique_ptr<correlation_scope>> kept;
    std::vector<std::function<void()>> tasks;
    tasks.emplace_back([&] {
        kept.emplace_back(new correlation_scope(correlation_scope::begin("left behind")));
        seen.add(ambient_in_handler());
    });
    tasks.emplace_back([&] { seen.add(ambient_in_handler()); });
    pool.submit(std::move(tasks));
    ASSERT_TRUE(eventually([&] { return seen.size() == 2; }));
    EXPECT_EQ(pool.threads(), 1U);
    EXPECT_THAT(seen.all(), ElementsAre("left behind", "nothing"));
}

} // namespace
} // namespace posthorn::conformance
