SELECT id, pattern,
       (SELECT json_group_array(stream_id) FROM tidewire_subscription_links AS link
        WHERE link.subscription_id = subscription.id AND link.explicit)
FROM tidewire_subscriptions AS subscription
