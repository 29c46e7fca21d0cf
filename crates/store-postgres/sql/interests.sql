SELECT id, pattern,
       ARRAY(SELECT stream_id FROM tidewire.subscription_links AS link
             WHERE link.subscription_id = subscription.id AND link.explicit)
FROM tidewire.subscriptions AS subscription
